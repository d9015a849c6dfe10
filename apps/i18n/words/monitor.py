"""A run being trained."""

WORDS: dict[str, tuple[str, str]] = {
    "monitor.pause": ("Pause", "暂停"),
    "monitor.resume": ("Resume", "继续"),
    "monitor.stop": ("Stop", "停止"),
    "monitor.cannot": ("That did not work: {reason}", "没有成功：{reason}"),
    "monitor.step": ("Step", "步数"),
    "monitor.train_loss": ("Train loss", "训练损失"),
    "monitor.val_loss": ("Validation loss", "验证损失"),
    "monitor.time": ("Training time", "训练用时"),
    "monitor.left": ("{time} left", "还剩 {time}"),
    "monitor.updated": ("last update {seconds} s ago", "{seconds} 秒前更新"),
    "monitor.silent": (
        "No sign of life from the trainer for {seconds} s. It may be busy with an evaluation, or stuck.",
        "训练进程已有 {seconds} 秒没有动静，可能正在评估，也可能卡住了。",
    ),
    "monitor.diverged": (
        "Training diverged at step {step}: the loss stopped being a usable number. The checkpoints before it are kept. Try a lower learning rate. ({reason})",
        "训练在第 {step} 步发散：损失已不是有效的数。此前的检查点都已保留。请降低学习率再试。（{reason}）",
    ),
    "monitor.failed": ("Training failed: {reason}", "训练失败：{reason}"),
    "monitor.no_reason": ("no reason was recorded", "没有留下原因"),
    "monitor.log": ("What the trainer printed", "训练进程的输出"),
    "monitor.waits": (
        "It waits in the queue, place {place}, and starts by itself as soon as there is room. Stop takes it out.",
        "正在队列中等候，排第 {place} 位，一有空位就自动开始。“停止”会让它离开队列。",
    ),
    "monitor.interrupted": (
        "The trainer ended at step {step} without saying so (killed, or the machine went down). Resume goes on from the last checkpoint.",
        "训练进程在第 {step} 步无声地结束了（被杀掉，或机器关了）。“继续”会从最后一个检查点接着训练。",
    ),
    "monitor.stopped": (
        "Stopped at step {step} of {max_steps}. Resume goes on from there.",
        "停在第 {step} / {max_steps} 步。“继续”会从那里接着训练。",
    ),
    "monitor.no_metrics": (
        "No losses yet; the first line comes after a few steps.",
        "还没有损失；走几步后会出现第一行。",
    ),
    "monitor.samples": ("What it writes", "它写出的文字"),
    "monitor.no_samples": ("No sample yet.", "还没有样本。"),
    "monitor.sample_at": ("step {step}", "第 {step} 步"),
}
