"""residlab runs | pause | stop: what is on disk, and the two things one may ask of a run that is training."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from lab.commands.console import one_line, print_json, print_lines

if TYPE_CHECKING:
    from lab.runs import Run


@dataclass(frozen=True)
class Runs:
    """List the runs: state, step, losses in nats per token."""

    root: Path | None = None
    """The folder they lie in; by default RESIDLAB_RUNS, or ./runs."""
    json: bool = False
    """Print a JSON list instead of a table."""


@dataclass(frozen=True)
class Pause:
    """Ask a run in training to write a checkpoint and pause; residlab train --resume RUN goes on with it."""

    run: tyro.conf.Positional[Path]
    """The run's folder."""


@dataclass(frozen=True)
class Stop:
    """Ask a run in training to write a checkpoint and stop; residlab train --resume RUN goes on with it."""

    run: tyro.conf.Positional[Path]
    """The run's folder."""


def runs(options: Runs) -> int:
    """Print the runs under a root."""
    from lab.runs import RunNotFoundError, list_runs, runs_root

    root = options.root or runs_root()
    if options.root is not None or os.path.lexists(root):
        _require_readable(root)
    rows = []
    for run in list_runs(root, told=_passed_over):
        with contextlib.suppress(RunNotFoundError):  # deleted since it was listed
            rows.append(summary(run))
    if options.json:
        print_json(rows)
    elif not rows:
        print(f"No runs in {root}. Start one: residlab train --corpus stories --preset nano --run {root}/first")
    else:
        _print_table(rows)
    return 0


def _require_readable(root: Path) -> None:
    """An unreadable folder is not an empty one. Raises ValueError or OSError."""
    if not os.path.isdir(root):
        raise ValueError(f"There is no folder {root}.")
    with os.scandir(root):
        pass


def _passed_over(sentence: str) -> None:
    print(one_line(f"residlab runs: {sentence}"), file=sys.stderr)


def pause(options: Pause) -> int:
    """Leave a pause request in the run's folder."""
    run = live_run(options.run)
    run.request_pause()
    print(f"Asked {options.run} to pause. Go on with it: residlab train --resume {options.run}")
    return 0


def stop(options: Stop) -> int:
    """Leave a stop request in the run's folder."""
    run = live_run(options.run)
    run.request_stop()
    print(f"Asked {options.run} to stop. Go on with it: residlab train --resume {options.run}")
    return 0


def live_run(path: Path) -> Run:
    """A run that is training, or a sentence that says it is not."""
    from lab.runs import find_run

    run = find_run(path)
    status = run.status()
    if not status.active:
        raise ValueError(f"The run {path} is {status.state} at step {status.step}: nothing is training it.")
    return run


def summary(run: Run) -> dict[str, Any]:
    """One run as plain values; losses in nats per token, None where nothing was measured."""
    from lab.runs.files import reason
    from lab.runs.summary import Losses, losses

    status, found, error = run.status(), Losses(), None
    try:
        found = losses(run)
    except (OSError, ValueError) as problem:
        error = reason(problem)
    return {
        "run": str(run.path),
        "state": status.state,
        "step": status.step,
        "max_steps": status.max_steps,
        "train_loss": found.train,
        "val_loss": found.val,
        "best_val_loss": found.best,
        "best_step": found.best_step,
        "seconds": found.seconds,
        "error": status.error or error,
    }


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    headings = ["run", "state", ">step", ">train", ">val", ">best val", ">minutes"]
    cells = [
        [
            row["run"],
            row["state"],
            f"{row['step']}/{row['max_steps']}",
            _loss(row["train_loss"]),
            _loss(row["val_loss"]),
            "" if row["best_val_loss"] is None else f"{row['best_val_loss']:.4f} @{row['best_step']}",
            "" if row["seconds"] is None else f"{row['seconds'] / 60:.1f}",
        ]
        for row in rows
    ]
    print_lines(headings, cells)
    for row in rows:
        if row["state"] == "failed" and row["error"]:
            print(one_line(f"{row['run']}: {row['error']}"), file=sys.stderr)


def _loss(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
