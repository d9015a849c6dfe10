"""Figures of a study, and what came of its claims."""

FORMS: dict[str, str] = {
    "Validation loss: mean, lowest and highest seed": "验证损失：各种子的平均、最低和最高",
    "Validation loss of {n} arms by step, mean of the seeds. Last: {losses}.": (
        "{n} 个方案随步数的验证损失，各种子平均。最后：{losses}。"
    ),
    "validation loss (nats per token)": "验证损失（nat/词元）",
    "Intervals of {n} differences: {means}.": "{n} 个差的区间：{means}。",
    "treatment minus control ({unit_})": "处理组减对照组（{unit_}）",
    "{outcome}, by claim": "{outcome}，按论断",
    "one seed: {value} {unit_}": "一个种子：{value} {unit_}",
    "mean {mean}, {level} % interval {low} to {high} {unit_}": "平均 {mean}，{level}% 区间 {low} 到 {high} {unit_}",
    "Learning rates: ring chosen, cross some lost": "学习率：圆圈为选中的，叉为有失败的",
    "Final loss over the learning rate. Chosen: {rates}.": "最终损失随学习率的变化。选中：{rates}。",
    "learning rate": "学习率",
    "final loss (nats per token)": "最终损失（nat/词元）",
    "rate {value}": "学习率 {value}",
    "lost {value}": "失败 {value}",
    "{measure} of {n} arms.": "{n} 个方案的 {measure}。",
    "{value} nats": "{value} nat",
    "{value} share": "比例 {value}",
    "{value} weight": "权重 {value}",
    "{value} bits/byte": "{value} 比特/字节",
    # units
    "nats": "nat",
    "share": "比例",
    "weight": "权重",
    "bits/byte": "比特/字节",
    # what came of a claim
    "{treatment} against {control}, {outcome}: {mean} nats ({level} % interval {low} to {high}, n = {n} of {planned}, "
    "margin {margin}, {share_}); predicted {predicted_}: {verdict_}.": (
        "{treatment} 对 {control}，{outcome}：{mean} nat（{level}% 区间 {low} 到 {high}，n = {n}，共 {planned}，"
        "界限 {margin}，{share_}）；预测{predicted_}：{verdict_}。"
    ),
    "{treatment} against {control}, {outcome}: {mean} ({level} % interval {low} to {high}, n = {n} of {planned}, "
    "margin {margin}); predicted {predicted_}: {verdict_}.": (
        "{treatment} 对 {control}，{outcome}：{mean}（{level}% 区间 {low} 到 {high}，n = {n}，共 {planned}，"
        "界限 {margin}）；预测{predicted_}：{verdict_}。"
    ),
    "{value} perplexity": "困惑度 {value}",
    "{treatment} against {control}, {outcome}: {value} in one pair; {verdict_}.": (
        "{treatment} 对 {control}，{outcome}：一对的差为 {value}；{verdict_}。"
    ),
    "{claim}: not known yet ({n} pairs of {treatment} and {control}).": (
        "{claim}：还不知道（{treatment} 与 {control} 共 {n} 对）。"
    ),
    "lower": "更低",
    "higher": "更高",
    "no difference": "没有差别",
    "replicates": "得到复现",
    "opposite": "相反",
    "no detectable difference": "没有可察觉的差别",
    "inconclusive": "无法判断",
    "exploratory: no claim": "探索性，不下结论",
    "unfinished": "未完成",
    "noise": "噪声",
    # measures
    "norm of the loss' gradient of each layer's MLP output matrix, {n} layers, before training": (
        "训练之前，{n} 层网络中损失对各层 MLP 输出矩阵的梯度范数"
    ),
    "log of last over first layer's gradient of the MLP's output matrix, {n} layers, before training": (
        "训练之前，{n} 层网络中末层与首层 MLP 输出矩阵梯度之比的对数"
    ),
    "log of the last layer's gradient of the MLP's output matrix, {n} layers, before training": (
        "训练之前，{n} 层网络中末层 MLP 输出矩阵梯度的对数"
    ),
    "log of the last layer's gradient with {a} layers over that with {b}, before training": (
        "训练之前，{a} 层与 {b} 层网络末层梯度之比的对数"
    ),
    "RMS of the residual stream before the first and after each layer": "残差流在首层之前和各层之后的 RMS",
    "residual_rms of the network before training": "网络训练之前的 residual_rms",
    "log of the residual stream's RMS after the last layer over that before the first": (
        "残差流在末层之后与首层之前的 RMS 之比的对数"
    ),
    "largest entry of the last residual stream, in units of its RMS": "最后的残差流中最大的分量，以其 RMS 为单位",
    "participation ratio of the MLPs' neurons (1: all equally active)": "MLP 神经元的参与比（1：全都同样活跃）",
    "share of each layer's MLP neurons within a hundredth of the token's largest": (
        "每层 MLP 神经元中，激活值不到该词元最大值百分之一的比例"
    ),
    "the MLPs' part of what layers add to the logit of the right token": (
        "各层加到正确词元 logit 上的量中，MLP 所占的部分"
    ),
    "mean cosine between embedding and unembedding of a token": "词元的嵌入与反嵌入的平均余弦",
    "validation loss read at twice the context trained on": "在两倍于训练的上下文上读出的验证损失",
    "loss at twice the context less the loss at the context": "两倍上下文的损失减去原上下文的损失",
    "largest attention score in absolute value": "绝对值最大的注意力分数",
    "validation loss less training loss, without dropout": "验证损失减训练损失，不用 dropout",
    "the best head's induction score": "最好的头的归纳分数",
}
