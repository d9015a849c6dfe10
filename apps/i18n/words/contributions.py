"""The Contributions page."""

WORDS: dict[str, tuple[str, str]] = {
    "contributions.component": ("Component", "部件"),
    "contributions.value": ("Contribution", "贡献"),
    "contributions.title": ("Contributions", "贡献"),
    "contributions.question": ("Which parts of the network write the next token?", "网络的哪些部分写出了下一个词元？"),
    "contributions.caveat": (
        "Each bar is what one part adds to the logit, directly, with every norm held at this run's statistics. The bars add up to the logit exactly; the line under the picture checks it.\n\nIt is the *direct* path only: a head that works by feeding a later head shows up at the later one. To ask what happens without a part, intervene.",
        "每根条是一个部分对 logit 的直接贡献，所有归一化都固定在本次运行的统计量上。各条之和恰好等于 logit，图下一行会核对。\n\n这只是**直接**路径：靠喂给后面的头起作用的头，会显示在后面那个头上。想知道少了某部分会怎样，要做干预。",
    ),
    "contributions.position": ("Predict after", "在此之后预测"),
    "contributions.token": ("Token to explain", "要解释的词元"),
    "contributions.versus": ("Compared with", "与之相比"),
    "contributions.no_versus": ("nothing", "不比较"),
    "contributions.typed": ("Choose, or type any one token", "选择，或输入任意一个词元"),
    "contributions.not_one": (
        "{text} is {n} tokens ({shown}); give exactly one.",
        "{text} 是 {n} 个词元（{shown}）；请只给一个。",
    ),
    "contributions.same": (
        "The token is compared with itself, which is 0 everywhere; showing the token alone.",
        "词元与自己相比处处为 0；改为只看它本身。",
    ),
    "contributions.by": ("Split by", "按什么拆分"),
    "contributions.by_component": ("Attention and MLP", "注意力与 MLP"),
    "contributions.by_layer": ("Layer", "层"),
    "contributions.by_head": ("Head", "头"),
    "contributions.by_neuron": ("Neuron", "神经元"),
    "contributions.drill": ("In layer", "在哪层"),
    "contributions.all_layers": ("all", "全部"),
    "contributions.logit_of": ("the logit of {token}", "{token} 的 logit"),
    "contributions.difference_of": ("the logit of {token} less that of {versus}", "{token} 与 {versus} 的 logit 之差"),
    "contributions.sum": (
        "The bars add up to {total}; {what} is {logit} (difference {error}).",
        "各条之和为 {total}；{what} 为 {logit}（相差 {error}）。",
    ),
    "contributions.capped": ("After the soft cap the model gives {logit}.", "经软上限后模型给出 {logit}。"),
}
