"""Opening a model that was trained elsewhere."""

WORDS: dict[str, tuple[str, str]] = {
    "elsewhere.title": ("Open GPT-2 or another model", "打开 GPT-2 或其他模型"),
    "elsewhere.offered": ("Folders on this machine", "本机上的模型文件夹"),
    "elsewhere.name": ("Name on the hub, or one of the folders", "Hub 上的名称，或其中一个文件夹"),
    "elsewhere.help": (
        "GPT-2 and Llama kinds: gpt2, distilgpt2, HuggingFaceTB/SmolLM2-135M ... Folders are offered when they lie in "
        "{folder} or where {variable} says. The model becomes a run and stays one.",
        "支持 GPT-2 和 Llama 两类：gpt2、distilgpt2、HuggingFaceTB/SmolLM2-135M 等。放在 {folder} 里、或由 {variable} "
        "指定的文件夹会列在这里。模型打开后会保存为一个运行。",
    ),
    "elsewhere.looking": ("Looking what it takes", "正在查看它需要多少资源"),
    "elsewhere.not_offered": (
        "{name} is neither one of the folders offered here nor a name on the hub (gpt2, owner/name). A path cannot be "
        "opened from the browser: put the folder into {folder}, or name it in {variable} and start again.",
        "{name} 既不是这里列出的文件夹，也不是 Hub 上的名称（如 gpt2、owner/name）。浏览器里不能打开任意路径：请把文件夹放进 "
        "{folder}，或写进 {variable} 后重新启动。",
    ),
    "elsewhere.kind_file": ("weights with their own config", "自带配置的权重文件"),
    "elsewhere.takes": (
        "{kind}, {parameters} parameters: {size} of memory, and as much of the disk as a run.",
        "{kind}，{parameters} 个参数：需要 {size} 内存；保存为运行还要同样大的磁盘空间。",
    ),
    "elsewhere.takes_file": (
        "Up to {size} of memory, and as much of the disk as a run.",
        "最多需要 {size} 内存；保存为运行还要同样大的磁盘空间。",
    ),
    "elsewhere.free": ("Free now: {memory} of memory, {disk} of disk.", "现在可用：内存 {memory}，磁盘 {disk}。"),
    "elsewhere.downloads": (
        "It is downloaded first where it is not in the hub's cache.",
        "如果本机缓存里没有，会先下载。",
    ),
    "elsewhere.no_room": (
        "That is more than is free now. Close something first, or take a smaller model.",
        "超过了现在可用的空间。请先腾出空间，或换一个小一些的模型。",
    ),
    "elsewhere.open": ("Open it", "打开"),
    "elsewhere.there": ("{name} is here already, as the run {run}.", "{name} 已经打开过，就是运行 {run}。"),
    "elsewhere.show": ("Show it", "查看"),
    "elsewhere.fetching": ("Downloading and reading the weights", "正在下载并读取权重"),
    "elsewhere.fetched": ("Downloaded {done} of {all}", "已下载 {done}，共 {all}"),
    "elsewhere.reading": ("Reading the weights", "正在读取权重"),
    "elsewhere.loading": ("Reading weights, {done} of {n}", "正在读取权重，{done} / {n}"),
    "elsewhere.writing": ("All {n} read; keeping them as a run", "{n} 个都已读入，正在保存为运行"),
    "elsewhere.busy": (
        "Another model is being opened on this server; try again when it is done.",
        "服务器正在打开另一个模型，请稍后再试。",
    ),
    "elsewhere.failed": ("{name} was not opened: {reason}", "没有打开 {name}：{reason}"),
    "elsewhere.no_memory": (
        "{name} was not opened: there is not enough memory. Take a smaller model.",
        "没有打开 {name}：内存不够。请换一个小一些的模型。",
    ),
    "elsewhere.tokenizer_too_large": (
        "the tokenizer of {name} has {n} tokens, the model only {most}",
        "{name} 的词表有 {n} 个词元，而模型只有 {most} 个",
    ),
}
