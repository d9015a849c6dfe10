"""What the floors below refuse before there is a result: a short text, a model that is not there, no direction."""

FORMS: dict[str, str] = {
    # data
    "the {split_} split of {corpus} has {n} tokens, but one window of the context {n_ctx} needs {needed} (each token "
    "predicts the next); use {fix_}": (
        "{corpus} 的{split_}部分只有 {n} 个词元，而上下文为 {n_ctx} 的一个窗口需要 {needed} 个"
        "（每个词元预测下一个）；请用{fix_}"
    ),
    "validation": "验证",
    "a longer text": "更长的文本",
    "a context (n_ctx) of at most {n}, or a longer text": "不大于 {n} 的上下文（n_ctx），或者更长的文本",
    # models trained elsewhere
    "{folder} holds no model: there is no config.json in it.": "{folder} 里没有模型：其中没有 config.json。",
    "{folder} holds a config but no weights ({one} or {two}).": "{folder} 里有配置，但没有权重（{one} 或 {two}）。",
    "{name} is no folder here and not in the download cache, and {why_} ({reason}): give a local folder, or go online "
    "once to download it.": (
        "{name} 不是这里的文件夹，也不在下载缓存里，而且{why_}（{reason}）：请给出本地文件夹，或联网下载一次。"
    ),
    "{name} is no folder here and not in the download cache, and {why_}: give a local folder, or go online once to "
    "download it.": "{name} 不是这里的文件夹，也不在下载缓存里，而且{why_}：请给出本地文件夹，或联网下载一次。",
    "{file} is no file of torch.save: it is {what_}.": "{file} 不是 torch.save 的文件：它{what_}。",
    "{file} is no whole safetensors file: it is {what_}.": "{file} 不是完整的 safetensors 文件：它{what_}。",
    "{file} is no GGUF file; it is {what_}.": "{file} 不是 GGUF 文件；它{what_}。",
    "a git-lfs pointer and not the file itself: run `git lfs pull`": (
        "是 git-lfs 的指针，不是文件本身：请运行 `git lfs pull`"
    ),
    "a web page or an answer of a server, not the file: download the file itself": (
        "是网页或服务器的回答，不是文件：请下载文件本身"
    ),
    "empty: download or copy it again": "是空的：请重新下载或复制",
    "a tar archive: unpack it first (tar -xf)": "是 tar 压缩包：请先解包（tar -xf）",
    "a zip archive: unpack it first (unzip)": "是 zip 压缩包：请先解压（unzip）",
    "compressed by gzip: unpack it first (gunzip)": "用 gzip 压缩过：请先解压（gunzip）",
    "JSON text and no weights: download the weights' file": "是 JSON 文本，不是权重：请下载权重文件",
    "{file} is a damaged GGUF file, or cut short ({reason}): copy it again.": (
        "{file} 是损坏或不完整的 GGUF 文件（{reason}）：请重新复制。"
    ),
    "{file} may not be read by this user (permission denied): change its permissions (chmod u+r).": (
        "当前用户无权读取 {file}（权限不足）：请更改它的权限（chmod u+r）。"
    ),
    "{file} is nested too deeply to be a model's JSON file.": "{file} 嵌套太深，不可能是模型的 JSON 文件。",
    "{file}: unknown tensor {maybe}": "{file}：未知的张量 {maybe}",
    "{file}: tensor {name} is missing; {n} are missing in all.": "{file}：缺少张量 {name}；一共缺少 {n} 个。",
    "{file} lacks the key {key}.": "{file} 缺少键 {key}。",
    "{file}: the key {key} is {value}: {why_}.": "{file}：键 {key} 为 {value}：{why_}。",
    "it computes something that is not here": "它的计算在这里没有对应",
    "it is not known to leave the numbers as they are": "不知道它是否会改变数值",
    "{file} is missing: {part} is one of {n} parts of a split model, and all of them are needed in one folder.": (
        "缺少 {file}：{part} 是分成 {n} 份的模型的一份，所有部分都要放在同一个文件夹里。"
    ),
    "HF_HUB_OFFLINE is set": "设置了 HF_HUB_OFFLINE",
    "the hub cannot be reached": "连不上 hub",
    # steering
    "There is no direction between {what_}: what the model holds of them is the same.": (
        "{what_}之间没有方向：模型对它们的表示相同。"
    ),
    "the two prompts": "两段提示",
    "the two tokens": "两个词元",
    "token and versus are the same token: there is no direction between them.": (
        "两边是同一个词元：它们之间没有方向。"
    ),
}
