"""What `lab.plots` writes into figures of comparisons and interventions, beyond the words it is given."""

FORMS: dict[str, str] = {
    "{what} of {n} heads in {m} layers, later ones higher. {list}": "{m} 层 {n} 个头的{what}，后面的层在上。{list}",
    "RMS of the residual stream through the layers: {list}.": "残差流经过各层的 RMS：{list}。",
    "not a finite number": "不是有限的数",
    "{what} of {n} tokens: {a} on average, {b}, {c}. Colour to {most}.": (
        "{n} 个词元的{what}，平均值：{a}；{b}；{c}。颜色到 {most}。"
    ),
}
