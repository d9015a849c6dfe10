"""The Generate page."""

WORDS: dict[str, tuple[str, str]] = {
    "generate.title": ("Generate", "生成"),
    "generate.question": (
        "What does the model write, and how sure is it of each token?",
        "模型会写什么？对每个词元有多大把握？",
    ),
    "generate.caveat": (
        "Each token is coloured by the probability the model itself gave it, before temperature and filters. Hover to see what else it considered.\n\nA likely token is not a true one: the number says how well it fits the training text.",
        "每个词元的颜色深浅是模型自己给它的概率（温度与过滤之前）。悬停可看它还考虑过什么。\n\n概率高不等于正确：它只说明与训练文本有多合。",
    ),
    "generate.temperature": ("Temperature", "温度"),
    "generate.temperature_help": (
        "Divides the logits: below 1 plays safe, above 1 takes chances, 0 always takes the likeliest token.",
        "用来除 logit：小于 1 更保守，大于 1 更冒险，0 总取最可能的词元。",
    ),
    "generate.length": ("New tokens", "新词元数"),
    "generate.top_k_help": ("Draw only from the k likeliest tokens.", "只从最可能的 k 个词元里抽。"),
    "generate.top_p_help": (
        "Draw only from the likeliest tokens that together reach this probability.",
        "只从累计概率达到此值的最可能词元里抽。",
    ),
    "generate.min_p_help": (
        "Draw only from tokens at least this many times as probable as the likeliest.",
        "只从概率不低于最大概率此倍数的词元里抽。",
    ),
    "generate.penalty": ("Repetition penalty", "重复惩罚"),
    "generate.penalty_help": (
        "Above 1 makes tokens that are already there less likely; 1 is off.",
        "大于 1 让已出现的词元更难再出现；1 为关闭。",
    ),
    "generate.seed": ("Seed", "随机种子"),
    "generate.fixed_seed": ("Same seed each time", "每次用同一种子"),
    "generate.greedy": ("Greedy", "贪心"),
    "generate.greedy_help": ("Always take the likeliest token.", "总取最可能的词元。"),
    "generate.stop": ("Stop at this token", "遇到这个词元就停"),
    "generate.stop_help": (
        "One token. Write \\n for a new line and \\s for a space.",
        "一个词元。换行写作 \\n，空格写作 \\s。",
    ),
    "generate.bad_stop": ("That cannot be a stop token: {reason}", "不能用作停止词元：{reason}"),
    "generate.stop_not_one": (
        "The stop text is {n} tokens ({shown}); give exactly one.",
        "停止文本是 {n} 个词元（{shown}）；请只给一个。",
    ),
    "generate.go": ("Write", "续写"),
    "generate.slides": (
        "The prompt has {n} tokens; the model sees the last {n_ctx} of them.",
        "提示有 {n} 个词元；模型只看最后 {n_ctx} 个。",
    ),
    "generate.refused": ("Generation was refused: {reason}", "无法生成：{reason}"),
    "generate.unseeded": ("Drawn without a seed: the next one will differ.", "没有用种子：下次会不同。"),
    "generate.strip_help": (
        "The bluer, the more probable, from 0 to 1. Hover over a token for the alternatives.",
        "颜色越蓝，概率越大（0 到 1）。悬停在词元上可看其他可能。",
    ),
    "generate.table": ("Every token and its alternatives", "每个词元及其备选"),
    "generate.index": ("No.", "序号"),
    "generate.token": ("Token", "词元"),
    "generate.probability": ("Probability", "概率"),
    "generate.sampled_probability": ("After filters", "过滤后"),
    "generate.entropy": ("Entropy (nats)", "熵（nat）"),
    "generate.alternatives": ("Likeliest tokens", "最可能的词元"),
    "generate.of_prompt": ("from the prompt", "来自提示"),
    "generate.nothing_yet": ("Nothing written yet.", "还没有生成过。"),
    "generate.other_model": ("This was written by {model}.", "以下由 {model} 写出。"),
}
