"""residlab runs | pause | stop: what is on disk, and the two things one may ask of a run that is training."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

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
    from lab.runs import list_runs, runs_root

    root = options.root or runs_root()
    if options.root is not None and not root.is_dir():
        raise ValueError(f"There is no folder {root}.")
    rows = [summary(run) for run in list_runs(root)]
    if options.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False))
    elif not rows:
        print(f"No runs in {root}. Start one: residlab train --corpus stories --preset nano --run {root}/first")
    else:
        _print_table(rows)
    return 0


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
    status = run.status()
    metrics = run.metrics()
    validation = [(row["val_loss"], row["step"]) for row in metrics if _finite(row.get("val_loss"))]
    best = min(validation, default=(None, None))
    return {
        "run": str(run.path),
        "state": status.state,
        "step": status.step,
        "max_steps": status.max_steps,
        "train_loss": _last(metrics, "train_loss"),
        "val_loss": validation[-1][0] if validation else None,
        "best_val_loss": best[0],
        "best_step": best[1],
        "seconds": _last(metrics, "seconds"),
        "error": status.error,
    }


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _last(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    return next((row[name] for row in reversed(rows) if _finite(row.get(name))), None)


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("state")
    for heading in ("step", "train", "val", "best val", "minutes"):
        table.add_column(heading, justify="right")
    for row in rows:
        best = f"{row['best_val_loss']:.4f} @{row['best_step']}" if row["best_val_loss"] is not None else ""
        table.add_row(
            escape(row["run"]),
            row["state"],
            f"{row['step']}/{row['max_steps']}",
            _loss(row["train_loss"]),
            _loss(row["val_loss"]),
            best,
            f"{row['seconds'] / 60:.1f}" if row["seconds"] is not None else "",
        )
    Console().print(table)


def _loss(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
