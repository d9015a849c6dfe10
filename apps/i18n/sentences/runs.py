"""What the trainer says of a run that ended."""

FORMS: dict[str, str] = {
    "diverged at step {n}: the training loss is not finite": "第 {n} 步：训练损失不是有限的数",
    "diverged at step {n}: the gradient is not finite": "第 {n} 步：梯度不是有限的数",
    "diverged at step {n}: the training loss was above {limit} for {k} steps in a row ({factor} times that of the "
    "untrained model)": "第 {n} 步：训练损失连续 {k} 步高于 {limit}（未训练模型的 {factor} 倍）",
}
