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
