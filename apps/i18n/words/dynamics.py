"""The Dynamics page."""

WORDS: dict[str, tuple[str, str]] = {
    "dynamics.title": ("Dynamics", "训练动态"),
    "dynamics.question": (
        "When in training does each head become what it is?",
        "每个头在训练的什么时候变成了现在的样子？",
    ),
    "dynamics.caveat": (
        "Each line is one **head**, measured at every **checkpoint** on repeated random tokens, which no text statistics can predict. **Induction**: weight on the token that followed the current one last time. **Previous token**, **duplicate token**, **first token**: weight on just that token. **Entropy**: how widely the weight is spread, in nats.\n\nA score says where a head looks, not that the model uses what it finds there: ablate the head to see. What rises together need not belong together. One run has one seed: a step at which something appears is a sample of one.\n\nCheckpoints are spaced by powers of two at first, so one place of the axis can be one step or five hundred; between two checkpoints nothing was measured.",
        "每条线是一个**头**，在每个**检查点**上用重复的随机词元测量，文本的统计规律帮不上忙。**归纳**：放在当前词元上次出现时其后那个词元上的权重。**前一词元**、**重复词元**、**首词元**：放在那个词元上的权重。**熵**：权重分散的程度，单位是 nat。\n\n分数说的是头看向哪里，不等于模型用了它看到的东西：把这个头消融掉才知道。一起上升的未必有关系。一个运行只有一个随机种子：某样东西出现的步数只是一个样本。\n\n检查点开头按 2 的幂分布，横轴上的一格可能是一步，也可能是五百步；两个检查点之间没有测量。",
    ),
    "dynamics.measure_choice": ("What is measured", "测量什么"),
    "dynamics.induction": ("induction", "归纳"),
    "dynamics.previous_token": ("previous token", "前一词元"),
    "dynamics.duplicate_token": ("duplicate token", "重复词元"),
    "dynamics.first_token": ("first token", "首词元"),
    "dynamics.entropy": ("entropy", "熵"),
    "dynamics.view": ("Picture", "图"),
    "dynamics.view_curves": ("Curves", "曲线"),
    "dynamics.view_grid": ("Grid", "网格"),
    "dynamics.threshold": ("Counts from", "分数达到多少才算"),
    "dynamics.threshold_help": (
        "A head is counted as one of a kind from the first checkpoint at which its score is at least this.",
        "分数第一次不低于这个值的检查点，算作这个头成为此类头的时刻。",
    ),
    "dynamics.strongest": ("Strongest head", "最强的头"),
    "dynamics.sharpest": ("Sharpest head", "最集中的头"),
    "dynamics.sentence": (
        "{head}: the largest change of {what} from one checkpoint to the next is {change}, between steps {low} and {high}.",
        "{head}：相邻检查点之间，{what}的最大变化是 {change}，在第 {low} 步到第 {high} 步之间。",
    ),
    "dynamics.reached": (
        "It is at least {threshold} for the first time at step {step}.",
        "第一次不低于 {threshold} 是在第 {step} 步。",
    ),
    "dynamics.never": (
        "At no checkpoint is it {threshold} or more.",
        "没有哪个检查点达到 {threshold}。",
    ),
    "dynamics.no_change": (
        "{head}: one checkpoint so far, so {what} has no change yet.",
        "{head}：目前只有一个检查点，{what}还谈不上变化。",
    ),
    "dynamics.curves_help": (
        "A click on a point picks its head, and its checkpoint for all pages. Colour: layer. Shaded: the chosen head's largest change. Dashed: the level that counts. Dotted: the checkpoint all pages look at.",
        "点一个点就选中它的头，并让所有页面转到它的检查点。颜色表示层；阴影是所选的头变化最大之处；虚线是“才算”的分数；点线是所有页面正在看的检查点。",
    ),
    "dynamics.grid_help": (
        "A click on a cell picks its head, and its checkpoint for all pages. Cells at or above the level that counts carry their number.",
        "点一格就选中它的头，并让所有页面转到它的检查点。达到“才算”分数的格子写有数值。",
    ),
    "dynamics.since": ("{what} since", "{what}始于"),
    "dynamics.since_help": (
        "First checkpoint with a score of at least {threshold}; empty: none.",
        "分数第一次不低于 {threshold} 的检查点；空白表示没有。",
    ),
    "dynamics.final": ("{what} at the end", "最终的{what}"),
    "dynamics.change": ("Largest change", "最大变化"),
    "dynamics.between": ("Between steps", "在哪两步之间"),
    "dynamics.table_help": (
        "Since: the first checkpoint at {threshold} or more. The last three columns are about {what}.",
        "“始于”：第一次不低于 {threshold} 的检查点。最后三列说的是{what}。",
    ),
    "dynamics.layers": ("Layers", "各层"),
    "dynamics.layers_help": (
        "Left: root mean square of the residual stream after each layer, over the positions of a held-out text. Right: norm of the loss gradient over each block's parameters, on the batch of that step. Both axes are logarithmic.",
        "左：每层之后残差流的均方根，在一段留出文本的各位置上计算。右：损失对每个块的参数的梯度范数，用那一步的批次计算。两个坐标轴都是对数的。",
    ),
    "dynamics.not_yet": (
        "Nothing measured yet; the first line is written with the first checkpoint.",
        "还没有测量；写下第一个检查点时会写下第一行。",
    ),
    "dynamics.none_recorded": (
        "{run} wrote down no head scores while it trained. They can be taken from its checkpoints now.",
        "{run} 训练时没有记下各头的分数，现在可以从它的检查点测出来。",
    ),
    "dynamics.measure": ("Measure at every checkpoint ({n})", "在每个检查点上测量（{n} 个）"),
    "dynamics.measuring": ("Measuring: checkpoint {done} of {n}", "正在测量：第 {done} / {n} 个检查点"),
    "dynamics.cannot_measure": ("{run} cannot be measured: {reason}", "无法测量 {run}：{reason}"),
}
