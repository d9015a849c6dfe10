"""What `lab.plots` writes into figures."""

FORMS: dict[str, str] = {
    # patching
    "The prompts score {one} and {other}: there is no difference to take shares of.": (
        "两段提示的得分是 {one} 与 {other}：没有差异可以按比例衡量。"
    ),
    # attention
    "attention": "注意力",
    "value-weighted attention": "按值加权的注意力",
    "induction score": "归纳分数",
    "previous-token score": "前一词元分数",
    "duplicate-token score": "重复词元分数",
    "weight on the first token": "首词元上的权重",
    "entropy (nats)": "熵（nat）",
    "{what_}, all heads": "所有头的{what_}",
    "{what_}, all heads, each cell the largest of {n} × {m} positions": (
        "所有头的{what_}，每格取 {n} × {m} 个位置中的最大值"
    ),
    "Mosaic of {what_} for {n} layers (rows, later ones higher) and {m} heads (columns) over {k} tokens; in each tile "
    "rows are destinations and columns sources. Colour from 0 to 1{maybe}.": (
        "{n} 层（行，后面的层在上）、{m} 个头（列）在 {k} 个词元上的{what_}拼图；"
        "每一小块里行是目标、列是来源，颜色从 0 到 1。"
    ),
    "0 to 1": "0 到 1",
    "{one} to {one2}": "{one} 到 {one2}",
    "head": "头",
    "heads": "头",
    "layer": "层",
    "layer {n}": "第 {n} 层",
    "cells": "格",
    "holds values that are not numbers": "含有非数值",
    "L{head}, {what_}": "L{head}，{what_}",
    "{what_} of layer {n} head {m} over {k} tokens: rows are destinations (queries), columns sources (keys), colour "
    "from 0 to 1; the future is blank.": (
        "第 {n} 层第 {m} 头在 {k} 个词元上的{what_}：行是目标（查询），列是来源（键），颜色从 0 到 1；未来留白。"
    ),
    "key: source position": "键：来源位置",
    "query: destination position": "查询：目标位置",
    "query {q} “{a}” → key {k} “{b}”": "查询 {q} “{a}” → 键 {k} “{b}”",
    "query {q} → key {k}": "查询 {q} → 键 {k}",
    "attention {value}": "注意力 {value}",
    "value-weighted attention {value}": "按值加权的注意力 {value}",
    "induction score {value}": "归纳分数 {value}",
    "previous-token score {value}": "前一词元分数 {value}",
    "duplicate-token score {value}": "重复词元分数 {value}",
    "weight on the first token {value}": "首词元上的权重 {value}",
    "entropy (nats) {value}": "熵（nat） {value}",
    "{what_} (chance {value})": "{what_}（随机水平 {value}）",
    "chance {value}": "随机水平 {value}",
    "{what_} of {n} heads (columns) in {m} layers (rows, later ones higher); chance is {value}.": (
        "{m} 层（行，后面的层在上）共 {n} 列头的{what_}；随机水平为 {value}。"
    ),
    # cells
    "not a number": "不是数",
    "infinite": "无穷大",
    "minus infinite": "负无穷大",
    "row {y}, column {x}": "第 {y} 行，第 {x} 列",
    # lens
    "{kind_} logit lens": "{kind_} logit 透镜",
    "raw": "原始",
    "tuned": "调谐",
    "{lens_}; bordered: the final choice is already first": "{lens_}；加框的格：最终选择已排第一",
    "{lens_}: {what_} for {n} rows (layers, the output at the top) and {m} positions; {k} of {all} cells already have "
    "the final choice first.": (
        "{lens_}：{n} 行（层，输出在最上）× {m} 个位置的{what_}；{all} 格中有 {k} 格最终选择已排第一。"
    ),
    "probability of the final choice": "最终选择的概率",
    "rank of the final choice, log scale": "最终选择的排名（对数）",
    "rank of the final choice,": "最终选择的排名，",
    "log scale, 1 to {n}": "对数刻度，1 到 {n}",
    "KL to the output (nats)": "与输出的 KL（nat）",
    "final choice first": "最终选择排第一",
    "position (the prediction is for the token after it)": "位置（预测的是它后面的词元）",
    "read after layer": "读取自哪一层之后",
    "after {row}, position {n} “{token}”": "{row} 之后，位置 {n} “{token}”",
    "final choice “{token}”: probability {p}, rank {r}": "最终选择 “{token}”：概率 {p}，排名 {r}",
    "entropy {value}, KL {kl}": "熵 {value}，KL {kl}",
    # contributions and norms
    "logit of “{token}” after position {n} = {value}": "位置 {n} 之后 “{token}” 的 logit = {value}",
    "logit of “{token}” after position {n} = {value} (after the soft cap {cap})": (
        "位置 {n} 之后 “{token}” 的 logit = {value}（软上限后 {cap}）"
    ),
    "logit difference “{a}” less “{b}” after position {n} = {value}": (
        "位置 {n} 之后 “{a}” 减 “{b}” 的 logit 差 = {value}"
    ),
    "logit difference “{a}” less “{b}” after position {n} = {value} (after the soft cap {cap})": (
        "位置 {n} 之后 “{a}” 减 “{b}” 的 logit 差 = {value}（软上限后 {cap}）"
    ),
    "Contributions to the {title_}; the largest are {list}.": "各部分的贡献：{title_}；最大的是 {list}。",
    "contribution (logits)": "贡献（logit）",
    "{n} others": "其余 {n} 项",
    "{value} logits": "logit 贡献 {value}",
    "Next token": "下一个词元",
    "Next-token probabilities: {list}": "下一个词元的概率：{list}",
    "probability": "概率",
    "probability {value}": "概率 {value}",
    "Residual stream and updates, {where_}": "残差流与更新，{where_}",
    "median over positions": "各位置的中位数",
    "position {n} “{token}”": "位置 {n} “{token}”",
    "RMS of the residual stream through {n} layers, {where_}: from {a} after the embedding to {b} at the end.": (
        "残差流经过 {n} 层的 RMS（{where_}）：嵌入之后 {a}，最后 {b}。"
    ),
    "stream": "残差流",
    "attention update": "注意力的更新",
    "MLP update": "MLP 的更新",
    "{name_}: RMS {value}": "{name_}：RMS {value}",
    "cosine with the stream {value}": "与残差流的余弦 {value}",
    "after layer": "经过的层",
    "RMS over d_model": "d_model 上的 RMS",
    "source {n} “{token}”": "来源 {n} “{token}”",
    "source position": "来源位置",
    "L{head} by source, logit of “{token}”: {value}": "L{head} 按来源，“{token}” 的 logit：{value}",
    "L{head} by source, logit of “{a}” less “{b}”: {value}": "L{head} 按来源，“{a}” 减 “{b}” 的 logit：{value}",
    "{title_}. The largest part, {value}, comes from position {n} “{token}”.": (
        "{title_}。最大的一份 {value} 来自位置 {n} “{token}”。"
    ),
    # training
    "Loss: training thin, validation thick": "损失：细线训练，粗线验证",
    "loss (nats per token)": "损失（nat/词元）",
    "loss (nats)": "损失（nat）",
    "step": "步",
    "tokens seen": "见过的词元",
    "training time (s)": "训练时间（秒）",
    "wall time (s)": "经过时间（秒）",
    "{run} train": "{run} 训练",
    "{run} val": "{run} 验证",
    "{run} checkpoints": "{run} 检查点",
    "{kind_} loss {value}": "{kind_}损失 {value}",
    "training loss": "训练损失",
    "validation loss": "验证损失",
    "training loss {value}": "训练损失 {value}",
    "validation loss {value}": "验证损失 {value}",
    "train": "训练",
    "val": "验证",
    "train_loss": "训练损失",
    "val_loss": "验证损失",
    "train_loss {value}": "训练损失 {value}",
    "val_loss {value}": "验证损失 {value}",
    "checkpoint at step {n}": "第 {n} 步的检查点",
    "tokens seen {n}": "见过的词元 {n}",
    "training time (s) {n}": "训练时间（秒） {n}",
    "wall time (s) {n}": "经过时间（秒） {n}",
    "Loss curves of {n} runs against {x_}. Last: {list}.": "{n} 个运行的损失曲线，横轴为{x_}。最后的值：{list}。",
    "step {n}": "第 {n} 步",
    "step {n}: {value}": "第 {n} 步：{value}",
    # through training
    "{what_} of {n} heads through training, and the loss": "{n} 个头在训练中的{what_}，以及损失",
    "{what_}, heads by checkpoints": "{what_}：各头 × 各检查点",
    "checkpoint (steps are not evenly spaced)": "检查点（步数间隔不均匀）",
    "step, logarithmic": "步（对数）",
    "{head}, step {n}": "{head}，第 {n} 步",
    "Layers through training": "各层在训练中的变化",
    "RMS of the residual stream": "残差流的 RMS",
    "RMS of what attention adds": "注意力所加部分的 RMS",
    "RMS of what the MLP adds": "MLP 所加部分的 RMS",
    "gradient norm": "梯度范数",
    "layer {n}, step {m}": "第 {n} 层，第 {m} 步",
    "RMS of the residual stream {value}": "残差流的 RMS {value}",
    "gradient norm {value}": "梯度范数 {value}",
    "Layers through training, at the first and at the last checkpoint, smallest to largest layer: {list}.": (
        "各层在训练中的变化，第一个与最后一个检查点上最小到最大的层：{list}。"
    ),
    "{title_}. Run {run}, {n} checkpoints from step {a} to {b}.": (
        "{title_}。运行 {run}，{n} 个检查点，第 {a} 到 {b} 步。"
    ),
    "{title_}. Run {run}, {n} checkpoints from step {a} to {b}. Largest at the end: {head}, {value}.": (
        "{title_}。运行 {run}，{n} 个检查点，第 {a} 到 {b} 步。最后最大的是 {head}，{value}。"
    ),
    "{title_}. Run {run}, {n} checkpoints from step {a} to {b}. Largest at the end: {head}, {value}. L{one} goes from "
    "{c} to {d}.": (
        "{title_}。运行 {run}，{n} 个检查点，第 {a} 到 {b} 步。最后最大的是 {head}，{value}。L{one} 从 {c} 到 {d}。"
    ),
    "{what} through training of {run}": "{run} 训练中的 {what}",
    "{what} through training of {run}, the {n} largest of {m}": "{run} 训练中的 {what}，{m} 个中最大的 {n} 个",
    # probes
    "Probes for {label} at {site}": "{site} 处对 {label} 的探针",
    "probe (95 % interval)": "探针（95% 区间）",
    "control: {what_}": "对照：{what_}",
    "shuffled labels": "打乱的标签",
    "random label a token": "每种词元一个随机标签",
    "commonest class": "最常见的类",
    "activations read after": "激活读取自",
    "accuracy": "准确率",
    "accuracy {value}": "准确率 {value}",
    "control {value}": "对照 {value}",
    "{title_}: accuracy on held-out documents for {n} rows, from {a} at {row} to {b} at {row2}, {c} at the row that "
    "validation prefers, {row3}; {control_} {d}, the commonest class {e}.": (
        "{title_}：在留出文档上 {n} 行的准确率，从 {row} 的 {a} 到 {row2} 的 {b}；验证集首选的 {row3} 为 {c}；"
        "{control_} {d}，最常见的类 {e}。"
    ),
    "After {where}: what the probe says of each class": "{where} 之后：探针对每一类的判断",
    "{title_}. {n} test tokens, {value} of them right.": "{title_}。{n} 个测试词元，正确比例 {value}。",
    "{title_}. {n} test tokens, {value} of them right. Worst: {name}, {part} right.": (
        "{title_}。{n} 个测试词元，正确比例 {value}。最差的是 {name}，正确比例 {part}。"
    ),
    "{a} taken for {b}": "{a} 被当作 {b}",
    "{n} of {m} test tokens": "{m} 个测试词元中的 {n} 个",
    "share of the class": "占该类的比例",
    "said by the probe": "探针的判断",
    "true class (test tokens)": "真实类别（测试词元数）",
    # interventions
    "Effect of: {what}": "效果：{what}",
    "{title_}. KL of the next-token prediction at {n} positions, {value} nats at most, at position {m}.": (
        "{title_}。{n} 个位置上下一个词元预测的 KL，最大 {value} nat，在位置 {m}。"
    ),
    "KL {value} nats": "KL {value} nat",
    "first choice “{a}” → “{b}”": "首选 “{a}” → “{b}”",
    "probability of the first {p} → {q}": "原首选的概率 {p} → {q}",
    "KL(before || after), nats": "KL(前 || 后)，nat",
}
