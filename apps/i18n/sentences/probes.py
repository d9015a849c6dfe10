"""What `lab.analysis` refuses to fit probes on."""

FORMS: dict[str, str] = {
    "corpus {onename}": "语料 {onename}",
    "There is no document in {what_}.": "{what_}里没有文档。",
    "Labels {name} have {n} class{maybe_only}: a probe needs at least two.": (
        "标签 {name} 只有 {n} 个类别{maybe_only}：探针至少需要两个。"
    ),
    "{n} training tokens for {width} features would be fitted by heart: give more documents (there are {documents}), "
    "a larger examples= (it is {examples}), or a narrower site.": (
        "{n} 个训练词元对 {width} 个特征，会被死记硬背：请给更多文档（现有 {documents} 篇）、更多带标签的词元"
        "（现为 {examples}），或者读较窄的激活值。"
    ),
    "The training documents of {name} hold one class only: give more documents.": (
        "{name} 的训练文档只有一个类别：请给更多文档。"
    ),
    "Labels {name} come in {n} document: training, validation and test each need one of their own.": (
        "标签 {name} 只来自 {n} 篇文档：训练、验证和测试各需要自己的一篇。"
    ),
    "Labels {name} come in {n} documents: training, validation and test each need one of their own.": (
        "标签 {name} 只来自 {n} 篇文档：训练、验证和测试各需要自己的一篇。"
    ),
    "Row {row} was fitted on no token of class {label}: there is no direction. Give more examples.": (
        "{row} 处的探针拟合时没有类别 {label} 的词元，所以没有方向。请增加带标签的词元。"
    ),
    "Row {row} has no direction for {label}: its weights are all alike.": (
        "{row} 处没有 {label} 的方向：它的权重都一样。"
    ),
}
