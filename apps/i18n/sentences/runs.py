"""What the trainer says of a run that ended, and what is said of a run whose files are damaged."""

FORMS: dict[str, str] = {
    "diverged at step {n}: the training loss is not finite": "第 {n} 步：训练损失不是有限的数",
    "no checkpoint of {one_run} can be read to go on from: {problems_}. Nothing was changed. Put the files back, "
    "{maybe}": "{one_run} 没有可以继续训练的检查点：{problems_}。没有改动任何文件。请放回文件；或：{maybe}",
    "{one_step} lacks {files}": "{one_step} 缺少 {files}",
    "there is none left": "一个检查点也不剩",
    "with optimizer_history 0 none keeps the optimizer's state": "optimizer_history 为 0，因此没有保存优化器状态",
    "diverged at step {n}: the gradient is not finite": "第 {n} 步：梯度不是有限的数",
    "diverged at step {n}: the training loss was above {limit} for {k} steps in a row ({factor} times that of the "
    "untrained model)": "第 {n} 步：训练损失连续 {k} 步高于 {limit}（未训练模型的 {factor} 倍）",
    "{path} is not valid JSON: it is nested too deeply": "{path} 不是有效的 JSON：嵌套太深",
    "{path} is not valid JSON: {error}": "{path} 不是有效的 JSON：{error}",
    "{path} should hold a JSON object, but holds a {kind}": "{path} 里应当是一个 JSON 对象，却是 {kind}",
    "{path} is {kind_}, where a file should be": "{path} 是{kind_}，这里应当是一个文件",
    "a named pipe": "命名管道",
    "a socket": "套接字",
    "a device": "设备",
    "{path} is damaged: {name} is {value}; it must be {kind_}": "{path} 已损坏：{name} 的值是 {value}，应当{kind_}",
    "{path} is damaged: {name} is {value}; it must not be negative": "{path} 已损坏：{name} 的值是 {value}，不能是负数",
    "{path} is damaged: state is {value}; states are {names}": "{path} 已损坏：state 是 {value}；可用的有 {names}",
    "a whole number": "是整数",
    "a number": "是数",
    "text": "是文本",
    "true or false": "是 true 或 false",
    "a list": "是列表",
    "an object": "是对象",
}
