"""The fast recipe against nanoGPT's: one run after the other, on the same threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.bench.timing import Result

if TYPE_CHECKING:
    from lab.training import RunConfig

SHORT = 0.15
"""A fast run of this share of the steps, its learning rate falling accordingly, is what wins the most time."""


def training(
    *,
    corpus: str = "stories",
    preset: str = "nano",
    steps: int = 2000,
    seed: int = 0,
    threads: int = 1,
    eval_every: int | None = None,
    folder: Path | None = None,
    on_step: Callable[..., None] | None = None,
) -> Result:
    """nanoGPT's recipe, fast for as many steps, and fast for ``SHORT`` of them, one after the other.

    Threads, corpus, seed and evaluation are the same. Times are training seconds, evaluation left out.
    ``time_ratio`` is the training time at which a fast run first measured a validation loss at or below the last
    one of nanogpt, over all of nanogpt's; null when neither did.
    """
    curves: dict[str, list[Result]] = {}
    overrides: Result = {"threads": threads}
    if eval_every is not None:
        overrides["eval_every"] = eval_every
    with tempfile.TemporaryDirectory(prefix="residlab-bench-") as scratch:
        for name, config in configurations(corpus, preset, steps, seed, overrides).items():
            curves[name] = _train_curve(config, (folder or Path(scratch)) / f"{name}-s{seed}", on_step)
    return {"corpus": corpus, "preset": preset, "steps": steps, "seed": seed} | compare_curves(curves)


def configurations(corpus: str, preset: str, steps: int, seed: int, overrides: Result) -> dict[str, RunConfig]:
    """The configuration of each run, by its name. Raises ValueError for what cannot be trained."""
    from lab.training.recipe import build_run_config

    return {
        name: build_run_config(corpus, preset, recipe, steps=count, seed=seed, training_overrides=overrides)
        for name, recipe, count in (
            ("nanogpt", "nanogpt", steps),
            ("fast", "fast", steps),
            ("short", "fast", max(1, round(SHORT * steps))),
        )
    }


def _train_curve(config: RunConfig, path: Path, on_step: Callable[..., None] | None) -> list[Result]:
    from lab.training import train

    run = train(config, run=path, on_step=on_step)
    state = run.status().state
    if state != "done":
        raise RuntimeError(f"the {config.recipe} run ended {state} instead of done: {run.status().error}")
    rows = [row for row in run.metrics() if row.get("val_loss") is not None]
    return [{name: row[name] for name in ("step", "tokens", "seconds", "val_loss")} for row in rows]


def compare_curves(curves: dict[str, list[Result]]) -> Result:
    """Validation curves as final and best losses, and the ratio of times; see ``training``."""
    summaries: dict[str, Result] = {}
    for name, rows in curves.items():
        best = min(rows, key=lambda row: row["val_loss"])
        summaries[name] = {
            "final_val_loss": rows[-1]["val_loss"],
            "best_val_loss": best["val_loss"],
            "best_step": best["step"],
            "seconds": rows[-1]["seconds"],
            "curve": rows,
        }
    target = summaries["nanogpt"]["final_val_loss"]
    there = [
        (row["seconds"], name, row["step"])
        for name, rows in curves.items()
        if name != "nanogpt"
        for row in rows
        if row["val_loss"] <= target
    ]
    seconds, reached_by, step = min(there, default=(None, None, None))
    ratio = None if seconds is None else round(seconds / summaries["nanogpt"]["seconds"], 4)
    return {**summaries, "target": target, "reached_by": reached_by, "reached_at_step": step, "time_ratio": ratio}
