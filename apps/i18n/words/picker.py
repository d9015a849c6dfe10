"""Picking a model, and the states of a run."""

WORDS: dict[str, tuple[str, str]] = {
    "picker.run": ("Run", "运行"),
    "picker.run_help": (
        "Runs being trained come first, then the one that changed last.",
        "正在训练的排在最前，其次是最近有变化的。",
    ),
    "picker.none": ("No runs in {folder} yet.", "{folder} 里还没有运行。"),
    "picker.came_from": ("not trained here: {source}", "并非在此训练：{source}"),
    "picker.train_tiny": ("Train a tiny model", "训练一个小模型"),
    "picker.train_tiny_help": (
        "Two small layers on built-in stories; well under a minute on a laptop.",
        "两层小模型，学内置的故事；笔记本上不到一分钟。",
    ),
    "picker.nothing_yet": (
        "There is no model to look at yet. Train a tiny one now, or start a run of your own on the Train page.",
        "还没有可看的模型。现在就训练一个小的，或在“训练”页开始自己的运行。",
    ),
    "picker.no_checkpoint": (
        "{run} has no checkpoint yet. The first one is written as training starts.",
        "{run} 还没有检查点。训练一开始就会写下第一个。",
    ),
    "state.queued": ("waiting to start", "等待开始"),
    "state.running": ("training, step {step} of {max_steps}", "训练中，第 {step} / {max_steps} 步"),
    "state.paused": ("paused at step {step} of {max_steps}", "已暂停，第 {step} / {max_steps} 步"),
    "state.stopped": ("stopped at step {step} of {max_steps}", "已停止，第 {step} / {max_steps} 步"),
    "state.done": ("done, {step} steps", "已完成，{step} 步"),
    "state.diverged": ("diverged at step {step}", "在第 {step} 步发散"),
    "state.failed": ("failed at step {step}", "在第 {step} 步失败"),
}
