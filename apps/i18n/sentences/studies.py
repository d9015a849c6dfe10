"""Figures of a study."""

FORMS: dict[str, str] = {
    "Validation loss: mean, lowest and highest seed": "验证损失：各种子的平均、最低和最高",
    "Validation loss of {n} arms by step, mean of the seeds. Last: {losses}.": (
        "{n} 个方案随步数的验证损失，各种子平均。最后：{losses}。"
    ),
    "validation loss (nats per token)": "验证损失（nat/词元）",
    "Intervals of {n} differences: {means}.": "{n} 个差的区间：{means}。",
    "treatment less control ({unit})": "处理组减对照组（{unit}）",
    "{outcome}, by claim": "{outcome}，按论断",
    "Learning rates: ring chosen, cross some lost": "学习率：圆圈为选中的，叉为有失败的",
    "Final loss over the learning rate. Chosen: {rates}.": "最终损失随学习率的变化。选中：{rates}。",
    "learning rate": "学习率",
    "final loss (nats per token)": "最终损失（nat/词元）",
    "{measure} of {n} arms.": "{n} 个方案的 {measure}。",
}
