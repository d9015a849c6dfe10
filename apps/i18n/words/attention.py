"""The Attention page."""

WORDS: dict[str, tuple[str, str]] = {
    "attention.title": ("Attention", "注意力"),
    "attention.question": ("Where does each head look?", "每个头在看哪里？"),
    "attention.caveat": (
        "Rows are the token that looks (query), columns the token looked at (key). A blank cell is the future, or beyond the window; it is not a zero.\n\nA weight is not influence: much attention on a value that writes nothing changes nothing. **Value-weighted** multiplies each weight by the length of what its value writes, and scales each row to 1.",
        "行是正在看的词元（query），列是被看的词元（key）。空白格是未来，或在窗口之外，不是零。\n\n权重不等于影响：看得再多，若值不写出东西，也什么都不改变。**值加权**把权重乘以值所写内容的长度，再把每行缩放到和为 1。",
    ),
    "attention.weighting": ("Weights", "权重"),
    "attention.weighting_pattern": ("Attention", "注意力"),
    "attention.weighting_value_weighted": ("Value-weighted", "值加权"),
    "attention.mosaic_help": ("Click a tile to see that head large.", "点一格，就把那个头放大。"),
    "attention.find": ("Find a head by what it does", "按用途找头"),
    "attention.find_help": (
        "Measured on random tokens repeated twice, not on this prompt. Click a column to sort.",
        "在重复两遍的随机词元上测得，与当前提示无关。点列名可排序。",
    ),
    "attention.score_induction": ("Induction", "归纳"),
    "attention.score_previous_token": ("Previous token", "前一词元"),
    "attention.score_duplicate_token": ("Duplicate", "重复词元"),
    "attention.score_first_token": ("First token", "首词元"),
    "attention.score_entropy": ("Entropy", "熵"),
    "attention.score_induction_help": (
        "Weight on the token that followed the last time this one was seen. Looking evenly gives {chance}.",
        "落在“上次出现此词元之后那个词元”上的权重。均匀地看为 {chance}。",
    ),
    "attention.score_previous_token_help": (
        "Weight on the token just before. Looking evenly gives {chance}.",
        "落在前一个词元上的权重。均匀地看为 {chance}。",
    ),
    "attention.score_duplicate_token_help": (
        "Weight on earlier copies of the token. Looking evenly gives {chance}.",
        "落在之前相同词元上的权重。均匀地看为 {chance}。",
    ),
    "attention.score_first_token_help": (
        "Weight on the first position, where a head rests that has nothing to do. Looking evenly gives {chance}.",
        "落在第一个位置上的权重；头无事可做时就停在那里。均匀地看为 {chance}。",
    ),
    "attention.score_entropy_help": (
        "How spread out the weights are, in nats. Looking evenly gives {chance}.",
        "权重有多分散，单位是 nat。均匀地看为 {chance}。",
    ),
    "attention.query": ("Looking token (query)", "正在看的词元（query）"),
    "attention.from": ("looking from", "从这里看"),
    "attention.text_help": (
        "Hover over a token to see where it looks; click to keep it.",
        "悬停在词元上看它在看哪里；点击则固定。",
    ),
    "attention.key": ("Token looked at (key)", "被看的词元（key）"),
    "attention.row": ("From {query}: {token}", "从 {query}：{token}"),
}
