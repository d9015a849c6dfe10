"""The Train page: form, recipes, corpora."""

WORDS: dict[str, tuple[str, str]] = {
    "train.title": ("Train", "训练"),
    "train.question": (
        "How does a small GPT learn, and how far does it get in a few minutes?",
        "一个小 GPT 怎样学习？几分钟能学到什么程度？",
    ),
    "train.caveat": (
        "**Train loss** is the mean next-token cross-entropy of one batch, in nats; it jumps about. **Validation loss** is over the whole held-out part of the text, the same windows every time.\n\nA lower loss means better guesses of the next token. It does not by itself mean better text, and losses compare only between runs with the same tokenizer.\n\nTraining runs in a process of its own. Closing this page does not stop it.",
        "**训练损失**是一个批次上预测下一个词元的平均交叉熵，单位是 nat，会上下跳动。**验证损失**在整个留出部分上计算，每次用同样的窗口。\n\n损失越低，对下一个词元猜得越准；这本身不等于文字更好，而且只有词元化方式相同的运行才能比较。\n\n训练在独立的进程里进行，关掉网页不会停止它。",
    ),
    "train.first_visit": (
        "**First time here?** One click trains a tiny GPT on made-up stories in under a minute. The other pages then open it up.",
        "**第一次来？** 点一下，就在一分钟内用编造的故事训练出一个很小的 GPT，然后用其他页面把它拆开看。",
    ),
    "train.new": ("New run", "新的运行"),
    "train.start": ("Start training", "开始训练"),
    "train.reading": ("Reading the text", "正在读取文本"),
    "train.parameters": ("Parameters", "参数量"),
    "train.parameters_help": (
        "With the vocabulary of this text. Attention, MLPs, norms, embeddings: see Anatomy.",
        "按这份文本的词表计算。注意力、MLP、归一化、嵌入各占多少：见“解剖”。",
    ),
    "train.tokens_per_step": ("Tokens per step", "每步词元数"),
    "train.flops_per_step": ("FLOPs per step", "每步 FLOPs"),
    "train.memory": ("Memory to train", "训练所需内存"),
    "train.data_line": (
        "Vocabulary {vocab} · {train} tokens to train on · {validation} to validate · the run sees the text {epochs} times",
        "词表 {vocab} · 训练部分 {train} 个词元 · 验证部分 {validation} 个 · 整个运行把文本看 {epochs} 遍",
    ),
    "train.short_train": (
        "The training part has {tokens} tokens, but one window of the context {n_ctx} needs {needed} (each token predicts the next). Shorten the context or give a longer text.",
        "训练部分只有 {tokens} 个词元，而上下文 {n_ctx} 的一个窗口需要 {needed} 个（每个词元预测下一个）。请缩短上下文，或给更长的文本。",
    ),
    "train.short_validation": (
        "The validation part has {tokens} tokens, but one window of the context {n_ctx} needs {needed} (each token predicts the next). Shorten the context or give a longer text.",
        "验证部分只有 {tokens} 个词元，而上下文 {n_ctx} 的一个窗口需要 {needed} 个（每个词元预测下一个）。请缩短上下文，或给更长的文本。",
    ),
    "train.already": (
        "{run} is already being trained with these very settings, so it is shown instead of started again.",
        "{run} 正以完全相同的设置训练，所以直接显示它，没有再启动一个。",
    ),
    "train.waits": (
        "As many runs are being trained as there is room for: {run} waits in the queue and starts by itself. The Runs page shows its turn.",
        "同时训练的运行已满：{run} 在队列里等候，会自动开始。“运行”页可看它排第几。",
    ),
    "train.cannot_start": ("The run could not be started: {reason}", "无法启动：{reason}"),
    "form.preset": ("Preset", "预设"),
    "form.recipe": ("Recipe", "配方"),
    "form.recipe_help": (
        "How to train: optimizer, schedule, and the variant of the model that goes with it.",
        "怎样训练：优化器、学习率计划，以及与之配套的模型变体。",
    ),
    "form.tokenizer": ("Tokenizer", "词元化"),
    "form.tokenizer_help": (
        "auto takes the corpus' own. bpe:2048 learns 2,048 byte-pair tokens; any size can be typed.",
        "auto 用语料自带的方式。bpe:2048 学出 2,048 个字节对词元，大小可以自己填。",
    ),
    "form.count_hidden": ("The parameter count appears when every field is right.", "所有字段都正确后才显示参数量。"),
    "form.more": ("More settings", "更多设置"),
    "form.group_shape": ("Shape and pace", "形状与步调"),
    "form.group_variant": ("Variant of the model", "模型变体"),
    "form.group_start": ("Dropout and initialisation", "Dropout 与初始化"),
    "form.group_optimizer": ("Optimizer and schedule", "优化器与学习率"),
    "form.group_record": ("Evaluation, checkpoints, samples", "评估、检查点、样本"),
    "recipe.nanogpt": (
        "nanoGPT's CPU recipe, to compare with: AdamW, cosine from 1e-3 to 1e-4.",
        "nanoGPT 的 CPU 配方，用来比较：AdamW，余弦，从 1e-3 到 1e-4。",
    ),
    "recipe.textbook": (
        "What textbooks teach, tuned for small models: AdamW, warm-up, cosine.",
        "教科书的做法，为小模型调过：AdamW，预热，余弦。",
    ),
    "recipe.fast": (
        "The lowest loss for the time: Muon, rotary positions, RMSNorm, squared ReLU, QK-norm.",
        "同样时间里损失最低：Muon、旋转位置、RMSNorm、平方 ReLU、QK 归一化。",
    ),
    "corpus.source": ("Text to learn from", "学习的文本"),
    "corpus.source_builtin": ("Built in", "内置"),
    "corpus.source_paste": ("Paste", "粘贴"),
    "corpus.source_upload": ("Upload", "上传"),
    "corpus.name": ("Corpus", "语料"),
    "corpus.paste_label": ("Your text", "你的文本"),
    "corpus.paste_hint": ("A few thousand characters at least; more is better.", "至少几千字，越多越好。"),
    "corpus.upload_label": ("A text file", "文本文件"),
    "corpus.encoding": ("Encoding", "编码"),
    "corpus.no_file": ("Choose a text file to train on.", "请选择一个用来训练的文本文件。"),
    "corpus.empty": ("There is no text yet to train on.", "还没有可以训练的文本。"),
    "corpus.unknown": (
        "There is no built-in corpus {name}; there are: {known}.",
        "没有名为 {name} 的内置语料；有：{known}。",
    ),
    "corpus.too_large": (
        "The file has {size} bytes; at most {most} can be uploaded. Train on it from the command line instead.",
        "文件有 {size} 字节，最多可上传 {most} 字节。请改用命令行训练。",
    ),
    "corpus.paste_too_long": (
        "The text has {size} characters; at most {most} can be pasted. Upload it as a file instead.",
        "文本有 {size} 个字符，最多可粘贴 {most} 个。请改为上传文件。",
    ),
    "corpus.not_text": (
        "The file is not {encoding} text: byte {position} does not fit. Choose another encoding, or save the file as UTF-8.",
        "文件不是 {encoding} 文本：第 {position} 字节不符。请换一种编码，或把文件另存为 UTF-8。",
    ),
    "corpus.other_encoding": (
        "The file is not {encoding} text: byte {position} does not fit. Likeliest first, it would read so: {listed}. Choose the encoding that reads right.",
        "文件不是 {encoding} 文本：第 {position} 字节不符。按可能性从高到低，它会读作：{listed}。请选择读起来正确的编码。",
    ),
    "corpus.surely": (
        "The file is {other}, not {encoding}: “{preview}”. Choose {other}.",
        "文件是 {other}，不是 {encoding}：“{preview}”。请选择 {other}。",
    ),
    "corpus.no_text": (
        "The file is not plain text: it is {what}. Save the text in it as a plain text file in UTF-8.",
        "该文件不是文本文件（{what}）。请把其中的文字另存为 UTF-8 纯文本文件。",
    ),
    "corpus.bad_encoding": (
        "{encoding} is not an encoding on offer; there are: {known}.",
        "不提供编码 {encoding}；可选：{known}。",
    ),
    "corpus.binary": (
        "The file holds a zero character at position {position}, so it is not plain text.",
        "文件在位置 {position} 有零字符，不是纯文本。",
    ),
    "corpus.half_character": (
        "The text holds half of a character ({code}) at position {position}, which cannot be kept; remove it.",
        "文本在位置 {position} 有半个字符（{code}），无法保存；请删去它。",
    ),
    "corpus.unwritable": ("The text cannot be kept in {folder}: {reason}.", "文本无法存入 {folder}：{reason}。"),
}
