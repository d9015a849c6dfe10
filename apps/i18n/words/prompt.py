"""The prompt bar."""

WORDS: dict[str, tuple[str, str]] = {
    "prompt.label": ("Prompt", "提示"),
    "prompt.help": (
        "Shared by all pages and kept in the address bar. Ctrl+Enter applies it.",
        "所有页面共用，并保存在地址栏里。Ctrl+Enter 生效。",
    ),
    "prompt.examples": ("Examples", "例子"),
    "prompt.choose": ("choose", "选择"),
    "prompt.tokens": ("{n} tokens", "{n} 个词元"),
    "prompt.tokens_one": ("1 token", "1 个词元"),
    "prompt.cut": (
        "{n} tokens are more than the context of {n_ctx}: the last {n_ctx} are shown",
        "{n} 个词元超过上下文 {n_ctx}：只显示最后 {n_ctx} 个",
    ),
    "prompt.trailing": ("the white space at the end is kept", "结尾的空白保留着"),
    "prompt.trim": ("Trim it", "去掉它"),
    "prompt.empty": (
        "The prompt is empty and this tokenizer has no beginning-of-text token. Type something to look at.",
        "提示是空的，而这种词元化没有文本开始符。请输入要看的内容。",
    ),
    "prompt.from_bos": (
        "The prompt is empty: the model starts from its beginning-of-text token.",
        "提示是空的：模型从文本开始符开始。",
    ),
    "prompt.too_many_characters": (
        "The prompt has {n} characters; at most {most} fit here.",
        "提示有 {n} 个字符，最多 {most} 个。",
    ),
    "prompt.unknown_character": (
        "The tokenizer does not know {n} of these characters: {shown}.",
        "词元化不认识其中 {n} 个字符：{shown}。",
    ),
    "prompt.unknown_word": (
        "The tokenizer does not know {n} of these words: {shown}.",
        "词元化不认识其中 {n} 个词：{shown}。",
    ),
    "prompt.unknown_symbol": (
        "The tokenizer does not know {n} of these symbols: {shown}.",
        "词元化不认识其中 {n} 个符号：{shown}。",
    ),
    "prompt.unknown_name": (
        "The tokenizer does not know {n} of these names: {shown}.",
        "词元化不认识其中 {n} 个名称：{shown}。",
    ),
    "prompt.unknown_part": (
        "The tokenizer does not know {n} parts of this text: {shown}.",
        "词元化不认识这段文字中的 {n} 处：{shown}。",
    ),
    "prompt.unreadable": (
        "This prompt cannot be read: {reason}",
        "读不了这个提示：{reason}",
    ),
    "prompt.history": ("Earlier", "历史"),
    "prompt.back": ("Show this prompt again", "再看这个提示"),
    "prompt.beside": ("Put it beside the prompt shown now", "与现在的提示并排比较"),
    "prompt.beside_title": ("Two prompts: what the model expects next", "两个提示：模型接下来预期什么"),
    "prompt.beside_end": ("End the comparison", "结束比较"),
    "prompt.beside_empty": ("This model reads nothing of the other prompt.", "这个模型读不出另一个提示里的任何内容。"),
    "prompt.expected": ("Expected next", "预期的下一个"),
    "prompt.probability": ("Probability", "概率"),
    "prompt.loss_of": ("Loss of the prompt: {loss} nats per token", "提示的损失：{loss} nat/词元"),
    "prompt.and_more": (" and {n} more", "，还有 {n} 个"),
    "prompt.unknown_choice": ("What to do with what it does not know", "不认识的怎么办"),
    "prompt.unknown_error": ("Ask me", "先问我"),
    "prompt.unknown_skip": ("Leave it out", "略去"),
    "prompt.unknown_replace": ("Replace it", "替换"),
    "prompt.did_skip": ("unknown parts are left out", "不认识的已略去"),
    "prompt.did_replace": ("unknown parts are replaced", "不认识的已替换"),
}
