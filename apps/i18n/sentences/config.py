"""What configs refuse, and why: the model, training, data, sampling."""

FORMS: dict[str, str] = {
    "{field} is {value}; it must be {rule_}.": "{field} 现在是 {value}；必须{rule_}。",
    "{field} is {value}; did you mean {near}?": "{field} 现在是 {value}；是想写 {near} 吗？",
    "{field} is {value}; known are {names}.": "{field} 现在是 {value}；可选 {names}。",
    "{field} is {value}; there are {n}, such as {names}.": "{field} 现在是 {value}；共有 {n} 种，例如 {names}。",
    "a whole number of at least {n}": "是不小于 {n} 的整数",
    "a whole number from {least} to 2^63 - 1": "是 {least} 到 2^63 - 1 之间的整数",
    "a number from {least} to {most}": "是 {least} 到 {most} 之间的数",
    "{field} {n} with d_model {d} makes a matrix that no memory holds.": (
        "{field} {n} 与 d_model {d} 组成的矩阵，任何内存都放不下。"
    ),
    "a whole number from 0": "是不小于 0 的整数",
    "a whole number from 1": "是不小于 1 的整数",
    "a finite number above 0": "是大于 0 的有限数",
    "a finite number of at least 0": "是不小于 0 的有限数",
    "between 0 and 1": "在 0 与 1 之间",
    "at least 0 and below 1": "不小于 0 且小于 1",
    "at least 1": "不小于 1",
    "at most {n}": "不大于 {n}",
    "two numbers of at least 0 and below 1": "是两个不小于 0 且小于 1 的数",
    "true or false": "是 true 或 false",
    "None or a text": "是 None 或一段文字",
    "None or a number above 0": "是 None 或大于 0 的数",
    "None or a finite number above 0": "是 None 或大于 0 的有限数",
    "None, true, false or 'qkv'": "是 None、true、false 或 'qkv'",
    "None, true or false": "是 None、true 或 false",
    "0 (always the likeliest token) or a finite number above it": "是 0（总取概率最大的词元）或大于 0 的有限数",
    "a whole number of at least 1, or None for no limit": "是不小于 1 的整数；None 表示不限制",
    "above 0 and at most 1, or None for no limit (temperature 0 keeps one token)": (
        "大于 0 且不大于 1；None 表示不限制（温度为 0 时只留一个词元）"
    ),
    "between 0 and 1, or None for no limit": "在 0 与 1 之间；None 表示不限制",
    "a finite number above 0 (1: no penalty, above 1: fewer repetitions)": (
        "是大于 0 的有限数（1 为不惩罚，大于 1 则重复更少）"
    ),
    "d_model {d} is not divisible by n_heads {n}; head counts that divide it: {names}; or set d_head.": (
        "d_model {d} 不能被 n_heads {n} 整除；可用的头数：{names}；或者另外指定 d_head。"
    ),
    "rotary positions turn pairs of dimensions, so d_head must be even, but d_model {d} with n_heads {n} gives d_head "
    "{h}; change one of them or take another positional_embedding_type.": (
        "旋转位置编码成对地转动维度，所以 d_head 必须是偶数，但 d_model {d} 和 n_heads {n} 得到 d_head {h}；"
        "请改其中之一，或换一种 positional_embedding_type。"
    ),
    "n_heads {n} is not divisible by n_key_value_heads {g}: query heads share key-value heads in equal groups.": (
        "n_heads {n} 不能被 n_key_value_heads {g} 整除：查询头要平均分组，共用键值头。"
    ),
    "rotary_scaling needs positional_embedding_type 'rotary', not {value}.": (
        "rotary_scaling 需要 positional_embedding_type 为 'rotary'，而不是 {value}。"
    ),
    "warmup_steps {w} is more than steps {n}: the learning rate would never reach its peak. Warm up for at most {m} "
    "steps, or train longer.": (
        "warmup_steps {w} 大于 steps {n}：学习率永远到不了峰值。预热最多 {m} 步，或者训练得更久。"
    ),
    "A corpus is needed: the name of a built-in one, a file or a folder.": (
        "需要语料：内置语料的名称、一个文件或一个文件夹。"
    ),
    "tokenizer is {value}; write auto, char, byte or bpe:SIZE.": (
        "tokenizer 现在是 {value}；请写 auto、char、byte 或 bpe:SIZE。"
    ),
}
