"""The Lens page."""

WORDS: dict[str, tuple[str, str]] = {
    "lens.title": ("Lens", "透镜"),
    "lens.question": (
        "What does the model expect at each token, and from which layer on?",
        "模型在每个词元处预期什么？从哪一层开始？",
    ),
    "lens.caveat": (
        "**Strip**: each token coloured by how expected it was, given what precedes it.\n\n**Grid**: the stream after each layer, read as if the model ended there (final norm and unembedding). It is the *raw* logit lens: early layers speak a basis the unembedding was never trained to read, so a strange early row may only be illegible. The last row is the model's own prediction.",
        "**词元条**：颜色表示在前文之下这个词元有多意料之中。\n\n**网格**：每层之后的残差流，当作模型到此为止来读（最终归一化加解嵌入）。这是**原始** logit 透镜：早期层使用的基底，解嵌入从未学过怎样读，所以早期行看起来奇怪，可能只是读不懂。最后一行就是模型自己的预测。",
    ),
    "lens.position": ("position", "位置"),
    "lens.probability": ("Probability", "概率"),
    "lens.surprisal": ("Surprise (nats)", "惊奇（nat）"),
    "lens.rank": ("Rank", "排名"),
    "lens.expected_next": ("expected next:", "预期的下一个："),
    "lens.colour": ("Colour of the tokens", "词元的颜色"),
    "lens.colour_probability": ("Probability", "概率"),
    "lens.colour_surprisal": ("Surprise", "惊奇"),
    "lens.colour_none": ("None", "无"),
    "lens.loss": (
        "Mean surprise {loss} nats over {n} predicted tokens. Scales are fixed: probability 0 to 1, surprise 0 to 6 nats.",
        "{n} 个被预测词元的平均惊奇为 {loss} nat。刻度固定：概率 0 到 1，惊奇 0 到 6 nat。",
    ),
    "lens.no_loss": (
        "A loss needs 2 tokens: nothing predicts the first one.",
        "损失至少需要 2 个词元：第一个没有前文来预测。",
    ),
    "lens.statistic": ("Statistic", "统计量"),
    "lens.statistic_probability": ("Probability", "概率"),
    "lens.statistic_rank": ("Rank", "排名"),
    "lens.statistic_entropy": ("Entropy", "熵"),
    "lens.statistic_kl": ("KL to the end", "与末层的 KL"),
    "lens.mid": ("Also between attention and MLP", "也看注意力与 MLP 之间"),
    "lens.row": ("Layer row", "层（行）"),
    "lens.cell": ("{row}, position {position}: {token}", "{row}，位置 {position}：{token}"),
    "lens.would_say": ("Would say next", "会接着说"),
    "lens.cell_line": (
        "The model's own choice {final} has probability {probability} and rank {rank} here; entropy {entropy}, KL to the end {kl} nats.",
        "模型最终的选择 {final} 在此处概率 {probability}、排名 {rank}；熵 {entropy}，与末层的 KL 为 {kl} nat。",
    ),
    "lens.check": (
        "The last row agrees with the model's own output to {error}.",
        "末行与模型自身输出相差不超过 {error}。",
    ),
}
