"""The slider over a run's checkpoints."""

WORDS: dict[str, tuple[str, str]] = {
    "checkpoints.label": ("Checkpoint", "检查点"),
    "checkpoints.latest": ("latest ({step})", "最新（{step}）"),
    "checkpoints.help": (
        "Every page looks at this step of training. The arrow keys move the slider; its end follows the newest checkpoint.",
        "所有页面看的都是训练到这一步的模型。方向键可移动滑块；最右端跟随最新的检查点。",
    ),
    "checkpoints.back": ("The checkpoint before", "前一个检查点"),
    "checkpoints.on": ("The checkpoint after", "后一个检查点"),
    "checkpoints.play": ("Play", "播放"),
    "checkpoints.stop": ("Pause", "暂停"),
    "checkpoints.play_help": (
        "Goes from checkpoint to checkpoint by itself; the page follows.",
        "自动逐个检查点往后走，页面随之变化。",
    ),
}
