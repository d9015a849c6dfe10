"""Notes of the parameter ledger and of the shapes step by step."""

FORMS: dict[str, str] = {
    "tied: the unembedding is the token embedding; one of its own would add V d = {n}": (
        "共享：反嵌入就是词元嵌入；单独一份会多 V d = {n}"
    ),
    "untied: the unembedding of its own costs V d = {n}": "不共享：单独的反嵌入占 V d = {n}",
    "learned positions cost T d = {n}": "可学习的位置占 T d = {n}",
    "positions are {kind}: learned ones would add T d = {n}": "位置编码是 {kind}：可学习的会多 T d = {n}",
    "also the unembedding": "也是反嵌入",
    "untied": "不共享",
    "learned positions": "可学习的位置",
    "gain": "增益",
    "bias": "偏置",
    "gain, the same for all heads": "增益，所有头相同",
    "token ids": "词元编号",
    "look up W_E [V, d]: a row per token": "查 W_E [V, d]：每个词元一行",
    "{how_}: a row per position, alike in the batch": "{how_}：每个位置一行，批内相同",
    "learned W_pos [T, d]": "可学习的 W_pos [T, d]",
    "sines and cosines": "正弦和余弦",
    "embed; positions enter in the attention, if at all": "embed；位置只在注意力里加入（如果有的话）",
    "the same in each of the {n} blocks": "{n} 个块里都一样",
    "final norm": "最后的归一化",
    "W_U [d, V]{maybe_}": "W_U [d, V]{maybe_}",
    ", W_E transposed": "，即 W_E 的转置",
    "-log softmax(logits)[next token]; the mean over all is the loss": (
        "-log softmax(logits)[下一个词元]；全部取平均就是损失"
    ),
    "norm over d, for each position alone": "在 d 上归一化，每个位置单独做",
    "one product with W_Q, W_K, W_V side by side": "与并排的 W_Q、W_K、W_V 做一次乘积",
    "split into heads": "分成各个头",
    "split into {name}": "分成 {name} 份",
    "turned by an angle that grows with position": "按随位置增大的角度旋转",
    "q k^T / sqrt(h){maybe_}, -inf above the diagonal{maybe2_}": "q k^T / sqrt(h){maybe_}，对角线以上{maybe2_}为 -inf",
    " + ALiBi bias": " + ALiBi 偏置",
    " and older than {n} tokens": "以及早于 {n} 个词元处",
    "softmax over keys: each row sums to 1": "对键做 softmax：每行之和为 1",
    "pattern v: values averaged by attention": "pattern v：按注意力平均的值",
    "heads side by side": "各头并排",
    "norm of what attention says": "对注意力的输出归一化",
    "norm of what the MLP says": "对 MLP 的输出归一化",
    "what is added to the stream": "加到残差流上的部分",
    "post W_out: back to d": "post W_out：回到 d",
}
