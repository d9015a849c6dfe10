"""How far training is: a bar in a terminal, a line now and then elsewhere. Losses in nats per token."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINE_SECONDS = 15.0
"""Where there is no terminal: the time between two lines. A new validation loss is always a line."""
PREPARING_SECONDS = 2.0
"""What is quicker than this before the first step is not told."""


class Progress:
    """Called with each logged row of metrics; shows step, losses and the time left.

    Used as a context manager, so that a bar leaves the terminal as it was, whatever ends the training.
    """

    def __init__(self, steps: int, *, quiet: bool = False, stream: TextIO | None = None):
        self.steps = steps
        self.quiet = quiet
        self.stream = sys.stderr if stream is None else stream
        self._seen: dict[str, tuple[float, int]] = {}  # the newest of each loss, and the step it is of
        self._bar: Bar | None = None
        self._task: Any = None
        self._start: tuple[float, int] | None = None
        self._last_line = 0.0
        self._last_preparing = time.monotonic()

    def __enter__(self) -> Progress:
        if not self.quiet and self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("step"),
                MofNCompleteColumn(),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[losses]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                console=Console(file=self.stream),
            )
            self._bar.start()
            self._task = self._bar.add_task("training", total=self.steps, losses="")
        return self

    def plan(self, said: str) -> None:
        """Say before the first step what the training will take."""
        if self._bar is not None:
            self._bar.console.print(said, markup=False, highlight=False)
        elif not self.quiet:
            print(said, file=self.stream, flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Take one row of metrics: ``step``, and ``train_loss`` and ``val_loss`` where they were measured."""
        if self.quiet:
            return
        step = int(row["step"])
        for name in ("train_loss", "val_loss"):
            if row.get(name) is not None:
                self._seen[name] = (row[name], step)
        now = time.monotonic()
        if self._start is None:
            self._start = (now, step)
        if self._bar is not None:
            self._bar.update(self._task, completed=step, losses=self._losses(step))
        elif row.get("val_loss") is not None or now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            print(
                f"step {step}/{self.steps}  {self._losses(step)}{self._left(now, step)}", file=self.stream, flush=True
            )

    def preparing(self, what: str, share: float) -> None:
        """Take what is done before the first step, and how much of it: a long text is read and encoded for minutes."""
        now = time.monotonic()
        if self.quiet or now - self._last_preparing < PREPARING_SECONDS:
            return
        self._last_preparing = now
        if self._bar is not None:
            self._bar.update(self._task, losses=f"{what}: {share:.0%}")
        else:
            print(f"{what}: {share:.0%}", file=self.stream, flush=True)

    def _losses(self, step: int) -> str:
        return "  ".join(
            f"{name.removesuffix('_loss')} {loss:.4f}" + (f" (step {of})" if name == "val_loss" and of != step else "")
            for name, (loss, of) in self._seen.items()
        )

    def _left(self, now: float, step: int) -> str:
        began, first = self._start or (now, step)
        if step <= first or now <= began:
            return ""
        seconds = (self.steps - step) * (now - began) / (step - first)
        return f"  {seconds / 60:.1f} min left" if seconds >= 60 else f"  {seconds:.0f} s left"
