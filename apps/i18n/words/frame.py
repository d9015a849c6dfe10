"""The frame around every page: language, notices, exports, what is picked."""

WORDS: dict[str, tuple[str, str]] = {
    "language.label": ("Language", "语言"),
    "section.make": ("Make", "训练与生成"),
    "section.look": ("Look inside", "看里面"),
    "notice.dismiss": ("Dismiss", "知道了"),
    "caveat.open": ("What am I looking at?", "这一页怎么看？"),
    "frame.foreign": (
        "This page was asked for as {host}, which is no name of this machine; open it as {hosts}, or name yours in server.allowedHosts.",
        "请求这个页面时用的名字是 {host}，不是本机的名字；请用 {hosts} 打开，或把您的名字写进 server.allowedHosts。",
    ),
    "selection.unknown": (
        "The link says {shown}, which no page reads: it changes nothing here.",
        "链接里的 {shown} 没有页面认识：在这里不起作用。",
    ),
    "selection.unavailable": (
        "{what} {asked} is not available here; showing {shown}.",
        "这里没有{what} {asked}，改为显示 {shown}。",
    ),
    "export.html": ("HTML", "HTML"),
    "export.html_help": (
        "A page that opens offline and asks nothing of the network.",
        "可离线打开的网页，不访问网络。",
    ),
    "export.csv": ("CSV", "CSV"),
    "export.json": ("JSON", "JSON"),
    "export.view": ("Take it home:", "导出："),
    "export.grid": ("Grid:", "网格："),
    "export.tokens": ("Tokens:", "词元："),
    "export.bars": ("Contributions:", "贡献："),
    "export.growth": ("Residual stream:", "残差流："),
    "strip.label": ("Tokens; move with the arrow keys, select with Enter", "词元；用方向键移动，回车选中"),
    "strip.part_of": ("Part of", "属于字符"),
    "frame.broken": ("This cannot be shown: {reason}", "无法显示：{reason}"),
    "inspection.opening": ("Opening the model", "正在打开模型"),
    "inspection.running": ("Running the prompt", "正在运行提示"),
    "inspection.cannot_open": ("{model} cannot be opened: {reason}", "打不开 {model}：{reason}"),
    "inspection.no_tokenizer": (
        "{run} has no tokenizer yet; it is written as training starts.",
        "{run} 还没有词元化文件；训练一开始就会写下。",
    ),
    "inspection.bad_tokenizer": (
        "The tokenizer of {run} cannot be read: {reason}",
        "读不出 {run} 的词元化文件：{reason}",
    ),
    "inspection.not_finite": (
        "This model's outputs are not finite numbers: it has diverged. Pick an earlier checkpoint.",
        "这个模型的输出不是有限的数：它已经发散。请选更早的检查点。",
    ),
    "select.layer": ("Layer", "层"),
    "select.head": ("Head", "头"),
    "select.token": ("Token", "词元"),
    "select.previous": ("Previous: {what}", "上一个{what}"),
    "select.next": ("Next: {what}", "下一个{what}"),
}
