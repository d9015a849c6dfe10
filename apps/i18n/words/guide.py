"""The two-minute tour of a first visit."""

WORDS: dict[str, tuple[str, str]] = {
    "guide.title": ("Tour", "导览"),
    "guide.no_step": ("The tour has no step {asked}, so it stays closed.", "导览没有 {asked} 这一步，所以没有打开。"),
    "guide.invite": ("Show me around: two minutes", "带我看一圈：两分钟"),
    "guide.invite_help": (
        "Train a tiny model, find the head that lets it repeat what it read, cut that head out and see the loss jump.",
        "训练一个小模型，找到让它能重复读过内容的那个头，把它切掉，看损失怎样跳上去。",
    ),
    "guide.decline": ("No, thanks", "不用了"),
    "guide.leave": ("Leave the tour", "退出导览"),
    "guide.there": ("Go to {page}", "去“{page}”页"),
    "guide.no_run": ("The model of this tour is not here yet: train it first.", "这次导览的模型还没有：请先训练它。"),
    "guide.back_to_train": ("To the first step", "回到第一步"),
    "guide.not_done": (
        "{run} is not finished ({state}). Resume it below, or delete it on the Runs page and begin again.",
        "{run} 还没有完成（{state}）。可以在下面继续，或在“运行”页删除后重新开始。",
    ),
    "guide.train_title": ("train", "训练"),
    "guide.train": (
        "A model of two layers reads random letters, every sequence twice. Nothing can be known about the first time; "
        "the second time everything can, by looking back. It takes less than a minute: watch the loss stay flat, then "
        "fall at once. That fall is a circuit forming.",
        "一个两层的小模型阅读随机字母，每段序列出现两遍。第一遍无从猜起；第二遍只要往回看就全知道。不到一分钟：先看到损失"
        "一直平着，然后突然下降。那一下，就是一个电路正在形成。",
    ),
    "guide.start": ("Train it", "开始训练"),
    "guide.next_find": ("Find the head that looks back", "去找往回看的那个头"),
    "guide.find_title": ("find its induction head", "找到归纳头"),
    "guide.find": (
        "The prompt says catDOG7 three times. The head shown large has the highest induction score: from each letter "
        "it looks at the letter that came *after* the same letter last time, a stripe beside the diagonal. That is the "
        "letter to say next.",
        "提示把 catDOG7 说了三遍。放大显示的是归纳分数最高的头：它从每个字母看向同一个字母上次出现之后的**下一个**字母，"
        "在图上是对角线旁边的一条斜纹。那正是接下来该说的字母。",
    ),
    "guide.next_cut": ("Cut it out", "把它切掉"),
    "guide.cut_title": ("cut it out", "切掉它"),
    "guide.cut": (
        "Its output is set to zero, everything else runs on. Compare the loss before and after, token by token: the "
        "first catDOG7 hardly changes, the repeated ones jump. Then cut the heads of layer 0 instead, one at a time: one "
        "matters as much. It looks one letter back, and this head searches by what it wrote: the circuit takes two.",
        "它的输出设为零，其余照常运行。逐个词元比较前后的损失：第一遍 catDOG7 几乎不变，重复的部分一下子跳上去。再逐个切掉"
        "第 0 层的头：其中一个同样要紧。它看前一个字母，归纳头正是靠它写下的内容来查找：这个电路由两个头组成。",
    ),
    "guide.next_more": ("And now?", "接下来呢？"),
    "guide.more_title": ("go on", "继续"),
    "guide.stories": ("Train on stories and see the next circuit", "用故事训练，看下一个电路"),
    "guide.stories_help": (
        "1,500 steps, a few minutes. Afterwards open Interventions, choose Patch, and see which head decides who gets the thing.",
        "1,500 步，几分钟。之后打开“干预”页，选择“替换”，看哪个头决定东西给了谁。",
    ),
    "guide.stories_started": (
        "The stories model is training. When it is done, open Interventions and choose Patch: the second prompt is filled in.",
        "故事模型正在训练。训练完后打开“干预”页并选择“替换”：第二个提示已经填好。",
    ),
    "guide.more": (
        "Drag the checkpoint slider back and watch the head unlearn, or try these prompts on this model. Then train a "
        "model on stories: it learns who gets the thing when Max and Luke are there and Max gives it away. You can also "
        "train on your own text, or open GPT-2 in the sidebar.",
        "把检查点滑块往回拖，看这个头退回没学会的样子，或在这个模型上试试这些提示。然后用故事训练一个模型：Max 和 Luke 都在、"
        "Max 把东西给出去时，它会学到东西给了谁。也可以用自己的文本训练，或在侧栏打开 GPT-2。",
    ),
}
