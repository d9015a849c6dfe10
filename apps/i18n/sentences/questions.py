"""Questions, predictions and claims of the studies that come with the project; on disk they stay English."""

FORMS: dict[str, str] = {
    # head_tying
    "Should the unembedding be the embedding's own matrix?": "反嵌入应当就用嵌入自己的矩阵吗？",
    "With 65 or so characters it makes no difference. With 4,096 pieces at this width the untied head has nearly "
    "half of "
    "all parameters and ends lower; narrowed to the tied model's size it ends higher.": (
        "词表只有 65 个左右的字符时没有差别。词表有 4,096 个词片时，在这个宽度下，不共享的输出头几乎占全部参数的一半，"
        "最终损失更低；收窄到与共享模型同样大小时则更高。"
    ),
    "At a character vocabulary tying makes no difference in bits per byte.": (
        "用字符词表时，是否共享对比特/字节没有影响。"
    ),
    "At 4,096 pieces tying costs loss: the untied model has more parameters.": (
        "词表有 4,096 个词片时，共享要付出损失：不共享的模型参数更多。"
    ),
    "At equal parameters the tied model, which is wider, ends lower.": "参数量相同时，共享的模型更宽，最终损失更低。",
    "Tying regularises: the gap between validation and training loss is smaller.": (
        "共享起正则化作用：验证损失与训练损失之差更小。"
    ),
    # mlp_activation
    "Does a SwiGLU MLP beat a GELU MLP of the same number of parameters, and is it the gate that does it?": (
        "参数量相同时，SwiGLU 的 MLP 是否胜过 GELU 的 MLP？起作用的是门控吗？"
    ),
    "The gated arms end about 0.04 nats below GELU, SwiGLU and GEGLU alike; a bilinear MLP, a gate without an "
    "activation, "
    "beats every ungated one.": (
        "带门控的方案比 GELU 约低 0.04 nat，SwiGLU 与 GEGLU 相同；双线性 MLP（没有激活函数的门控）胜过所有不带门控的。"
    ),
    "SwiGLU ends below GELU at equal parameters (by 0.039 nats there).": (
        "参数量相同时 SwiGLU 最终低于 GELU（原文低 0.039 nat）。"
    ),
    "GEGLU and SwiGLU end within noise of each other.": "GEGLU 与 SwiGLU 的最终损失之差在噪声之内。",
    "It is the gate: a bilinear MLP ends below GELU.": "起作用的是门控：双线性 MLP 最终低于 GELU。",
    "ReLU^2 ends below GELU.": "ReLU^2 最终低于 GELU。",
    "SwiGLU does not end below ReLU^2.": "SwiGLU 最终不低于 ReLU^2。",
    "ReLU^2's neurons are sparser than GELU's.": "ReLU^2 的神经元比 GELU 的更稀疏。",
    # norm_placement
    "Does it matter whether the norm stands before each sublayer, after it, or on both sides?": (
        "归一化放在每个子层之前、之后还是两边，有没有影响？"
    ),
    "At four layers, tuned alike and warmed up, Post-Norm and Pre-Norm end within the margin of each other; without "
    "warm-up Post-Norm loses; before training its last layer's gradient is larger than Pre-Norm's, and the more so the "
    "deeper, but only under Xavier initialisation.": (
        "四层、同样调参并预热时，Post-Norm 与 Pre-Norm 的最终损失之差在界限之内；不预热时 Post-Norm 更差；"
        "训练之前它末层的"
        "梯度比 Pre-Norm 的大，层数越多差得越多，但只在 Xavier 初始化下如此。"
    ),
    "At six layers or fewer, with warm-up and a tuned learning rate, Post-Norm ends where Pre-Norm does.": (
        "不超过六层、有预热且调过学习率时，Post-Norm 与 Pre-Norm 的最终损失相同。"
    ),
    "The same under Xavier initialisation.": "Xavier 初始化下也是如此。",
    "Without warm-up Post-Norm ends above Pre-Norm.": "不预热时 Post-Norm 最终高于 Pre-Norm。",
    "Norms on both sides end no higher than Pre-Norm.": "两边都放归一化，最终不高于 Pre-Norm。",
    "The residual stream grows more over the layers in Pre-Norm than in Post-Norm.": (
        "残差流逐层增长，在 Pre-Norm 中比在 Post-Norm 中更多。"
    ),
    "Before training ({init} initialisation, {n} layers) the gradient of the last MLP's output matrix is larger in "
    "Post-Norm than in Pre-Norm.": (
        "训练之前（{init} 初始化，{n} 层），末层 MLP 输出矩阵的梯度在 Post-Norm 中比在 Pre-Norm 中大。"
    ),
    "Before training ({init} initialisation{maybe}) it falls with depth, from 4 layers to 16, more in Pre-Norm (by "
    "sqrt 4 in "
    "theory, -0.69) than in Post-Norm (not at all).": (
        "训练之前（{init} 初始化），从 4 层到 16 层，它随深度下降，在 Pre-Norm 中（理论上为 √4，即 -0.69）"
        "比在 Post-Norm 中（不下降）多。"
    ),
    "Before training ({init} initialisation, 16 layers) the gradient of the MLP's output matrix rises towards the last "
    "layer in Post-Norm.": "训练之前（{init} 初始化，16 层），Post-Norm 中 MLP 输出矩阵的梯度越靠近末层越大。",
    # normalization
    "Does it matter which norm is used, and does one on queries and keys make the rate matter less?": (
        "用哪种归一化有没有影响？对查询和键归一化，能不能让学习率不那么要紧？"
    ),
    "RMSNorm ends where LayerNorm does. A norm on queries and keys changes little at the best learning rate, but "
    "bounds "
    "the attention's scores and loses less at the rates beside it.": (
        "RMSNorm 与 LayerNorm 的最终损失相同。对查询和键归一化，在最佳学习率下改变很小，"
        "但限制了注意力分数的大小，学习率偏离时损失也少些。"
    ),
    "RMSNorm ends where LayerNorm does.": "RMSNorm 与 LayerNorm 的最终损失相同。",
    "At its best learning rate QK-norm changes nothing.": "在各自的最佳学习率下，QK 归一化不改变什么。",
    "With QK-norm the loss depends less on the learning rate.": "有 QK 归一化时，损失受学习率的影响更小。",
    "The same with RMSNorm.": "用 RMSNorm 时也是如此。",
    "RMSNorm's sensitivity is LayerNorm's.": "RMSNorm 对学习率的敏感度与 LayerNorm 相同。",
    "With QK-norm the largest attention score is smaller.": "有 QK 归一化时，最大的注意力分数更小。",
    # overfitting
    "Where a network reads little data often, do dropout and weight decay help, and when no longer?": (
        "反复读少量数据时，dropout 和权重衰减有帮助吗？数据多到什么程度就不再有？"
    ),
    "Where the data is read a dozen times, dropout 0.2 and tenfold weight decay each end lower; where it is read less "
    "than once, dropout ends higher. In between, at about five times, dropout makes no difference.": (
        "数据读十几遍时，dropout 0.2 和十倍的权重衰减各自都使最终损失更低；读不到一遍时，dropout 使其更高。"
        "介于两者之间、约五遍时，dropout 没有影响。"
    ),
    "Where the data is read a dozen times or more, dropout ends lower.": (
        "数据读十几遍或更多时，dropout 使最终损失更低。"
    ),
    "Where it is read some five times, dropout makes no difference: little data ends there.": (
        "读五遍左右时，dropout 没有影响：“数据少”到此为止。"
    ),
    "Where it is read less than once, dropout ends higher.": "读不到一遍时，dropout 使最终损失更高。",
    "Tenfold weight decay ends lower where data is little.": "数据少时，十倍的权重衰减使最终损失更低。",
    "It makes no difference where data is plenty.": "数据充足时，它没有影响。",
    "Dropout narrows the gap between validation and training loss where data is little.": (
        "数据少时，dropout 缩小验证损失与训练损失之差。"
    ),
    "Dropout also lowers the best loss along the way, where data is little.": (
        "数据少时，dropout 也使训练途中的最佳损失更低。"
    ),
    # positions
    "Which positions are learned best, and which are still good at twice the context trained on?": (
        "哪种位置编码学得最好？到了训练上下文的两倍，哪种仍然好用？"
    ),
    "Rotary positions end below learned ones; none at all end at most 5 % of perplexity above learned. Read at twice "
    "the "
    "context sinusoidal positions lose most, rotary some, ALiBi nothing.": (
        "旋转位置编码最终低于可学习的；完全没有位置编码时，困惑度最多比可学习的高 5%。"
        "在两倍的上下文上，正弦位置编码损失最多，旋转的有一些，ALiBi 没有。"
    ),
    "Rotary positions end below learned ones.": "旋转位置编码最终低于可学习的。",
    "ALiBi ends below sinusoidal positions at the context trained on.": (
        "在训练时的上下文上，ALiBi 最终低于正弦位置编码。"
    ),
    "Without positions the loss ends within 5 % of perplexity (0.05 nats) of learned ones: a causal network can "
    "count.": ("没有位置编码时，最终困惑度与可学习的相差不到 5%（0.05 nat）：因果网络会数数。"),
    "Read at twice the context, sinusoidal positions lose.": "在两倍的上下文上，正弦位置编码变差。",
    "Read at twice the context, rotary positions lose.": "在两倍的上下文上，旋转位置编码变差。",
    "Read at twice the context, ALiBi gains from what it never saw so far away.": (
        "在两倍的上下文上，ALiBi 能从训练时没见过的远处得益。"
    ),
    "Sinusoidal positions lose more than rotary ones.": "正弦位置编码比旋转位置编码变差得多。",
    "Rotary positions lose more than ALiBi.": "旋转位置编码比 ALiBi 变差得多。",
}
