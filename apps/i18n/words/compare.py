"""The Compare page."""

WORDS: dict[str, tuple[str, str]] = {
    "compare.title": ("Compare", "比较"),
    "compare.question": (
        "Where do two models, or two moments of one training, differ on the same text?",
        "两个模型，或同一次训练的两个时刻，在同一段文本上有哪些不同？",
    ),
    "compare.caveat": (
        "**A** is the model picked in the sidebar, **B** the one chosen here. Both rows of a picture share one colour range, and the difference **B − A** is coloured on plus and minus the same number: blue is more in B, orange less.\n\nOne prompt is an anecdote: whether B is better than A is for the validation losses in the curves, over several seeds, to say. Heads of separately trained networks have no common numbering: L1H0 of A and L1H0 of B need not do the same job.",
        "**A** 是侧边栏所选的模型，**B** 是在这里选的。图中两行共用一个颜色范围，差值 **B − A** 在正负同一个数之间着色：蓝色表示 B 更大，橙色表示更小。\n\n一个提示只是个例：B 是否优于 A，要看曲线中的验证损失，并且要有多个随机种子。分别训练的网络，头的编号之间没有对应：A 的 L1H0 与 B 的 L1H0 不必做同样的事。",
    ),
    "compare.run_b": ("Compare with run", "与哪次运行比较"),
    "compare.run_b_help": (
        "Any run of the runs folder: arms of a study too, and models of other makers once they are opened.",
        "运行文件夹里的任何一次运行：包括研究的各个分支，以及已经打开的其他来源的模型。",
    ),
    "compare.step_b": ("at its checkpoint", "它的检查点"),
    "compare.sides": ("A is {a}, B is {b}", "A 是 {a}，B 是 {b}"),
    "compare.same": (
        "Both sides are the same checkpoint: every difference is 0. Choose another run or checkpoint.",
        "两边是同一个检查点：差值全为 0。请选另一次运行或另一个检查点。",
    ),
    "compare.unreadable": ("{model} cannot read this prompt: {reason}", "{model} 读不了这个提示：{reason}"),
    "compare.mean_loss": ("mean loss (nats)", "平均损失（nat）"),
    "compare.bits": ("bits per character", "每字符比特数"),
    "compare.other_tokens": (
        "The two models cut this text into different tokens ({a} in A, {b} in B), so there is no difference token by token. Bits per character, norms, head scores and curves still compare.",
        "两个模型对这段文本的切分不同（A 有 {a} 个词元，B 有 {b} 个），因此没有逐词元的差值。每字符比特数、范数、头的分数和曲线仍可比较。",
    ),
    "compare.other_shape": (
        "The two models have different numbers of layers or heads, so their maps stand side by side without a difference.",
        "两个模型的层数或头数不同，因此两幅图并排显示，不求差。",
    ),
    "compare.show_loss": ("loss of each token", "每个词元的损失"),
    "compare.show_attention": ("attention of a head", "一个头的注意力"),
    "compare.show_scores": ("head scores", "头的分数"),
    "compare.show_norms": ("residual stream", "残差流"),
    "compare.show_curves": ("training curves", "训练曲线"),
    "compare.depth": ("share of the layers passed", "已经过的层所占比例"),
    "compare.after": ("next token after {token}", "{token} 之后的下一个词元"),
    "compare.axis": ("Against", "横轴"),
    "compare.axis_step": ("step", "步数"),
    "compare.axis_tokens": ("tokens seen", "已见词元数"),
    "compare.axis_wall_seconds": ("wall time", "实际用时"),
    "compare.log": ("logarithmic loss", "损失取对数"),
    "compare.no_curves": (
        "Neither side was trained here, so there are no curves.",
        "两边都不是在这里训练的，因此没有曲线。",
    ),
}
