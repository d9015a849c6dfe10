"""Die at a chosen place, as the kernel's out-of-memory killer would have it: SIGKILL, without a last word.

    install("step:5")                                     in a process that is to die
    python -m tests.faults.injection step:5 MODULE ...    a module's main, in a process that is to die

Places: `step` (a step is done, nothing of it written), `checkpoint` (a checkpoint is written but not yet named), `line`
(half of a line of metrics is written).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from lab.runs import Run, step_folder, to_json


def install(fault: str) -> None:
    """Let this process kill itself at "PLACE:STEP"."""
    place, _, number = fault.partition(":")
    {"step": _after_a_step, "checkpoint": _before_its_name, "line": _within_a_line}[place](int(number))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _after_a_step(step: int) -> None:
    from lab.training.trainer import Trainer

    make = Trainer._step

    def _step(self: Trainer) -> None:
        make(self)
        if self.progress.step == step:
            _die()

    Trainer._step = _step  # type: ignore[method-assign]


def _before_its_name(step: int) -> None:
    from lab.training import checkpoint

    sync = checkpoint.sync_directory

    def sync_directory(folder: Path) -> None:
        sync(folder)
        if folder.name.startswith(f".{step_folder(step)}."):
            _die()

    checkpoint.sync_directory = sync_directory  # type: ignore[assignment]


def _within_a_line(step: int) -> None:
    append = Run.append

    def half(self: Run, file: str, record: dict[str, Any]) -> None:
        if file == "metrics" and record["step"] == step:
            with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as lines:
                lines.write(to_json(record)[:40])
            _die()
        append(self, file, record)

    Run.append = half  # type: ignore[method-assign]


if __name__ == "__main__":
    install(sys.argv[1])
    sys.exit(importlib.import_module(sys.argv[2]).main(sys.argv[3:]))
