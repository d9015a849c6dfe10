"""The fast recipe against nanoGPT's: two runs, one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.bench.timing import Result


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
    """nanoGPT's recipe, then fast, one after the other with the same threads, data and number of steps.

    Times are training seconds, evaluation left out. ``time_ratio`` is the training time at which fast first
    measured a validation loss at or below the last one of nanogpt, over all of nanogpt's; null when it never
    did.
    """
    curves: dict[str, list[Result]] = {}
    overrides: Result = {"threads": threads}
    if eval_every is not None:
        overrides["eval_every"] = eval_every
    with tempfile.TemporaryDirectory(prefix="residlab-bench-") as scratch:
        for recipe in ("nanogpt", "fast"):
            path = (folder or Path(scratch)) / f"{recipe}-s{seed}"
            curves[recipe] = _train_curve(corpus, preset, recipe, steps, seed, overrides, path, on_step)
    return {"corpus": corpus, "preset": preset, "steps": steps, "seed": seed} | compare_curves(curves)


def _train_curve(
    corpus: str,
    preset: str,
    recipe: str,
    steps: int,
    seed: int,
    overrides: Result,
    path: Path,
    on_step: Callable[..., None] | None,
) -> list[Result]:
    from lab.training import train
    from lab.training.recipe import build_run_config

    config = build_run_config(
        corpus, preset=preset, recipe=recipe, steps=steps, seed=seed, training_overrides=overrides
    )
    run = train(config, run=path, on_step=on_step)
    state = run.status().state
    if state != "done":
        raise RuntimeError(f"the {recipe} run ended {state} instead of done: {run.status().error}")
    rows = [row for row in run.metrics() if row.get("val_loss") is not None]
    return [{name: row[name] for name in ("step", "tokens", "seconds", "val_loss")} for row in rows]


def compare_curves(curves: dict[str, list[Result]]) -> Result:
    """Two validation curves as final and best losses and a ratio of times; see ``training``."""
    summaries: dict[str, Result] = {}
    for recipe, rows in curves.items():
        best = min(rows, key=lambda row: row["val_loss"])
        summaries[recipe] = {
            "final_val_loss": rows[-1]["val_loss"],
            "best_val_loss": best["val_loss"],
            "best_step": best["step"],
            "seconds": rows[-1]["seconds"],
            "curve": rows,
        }
    target = summaries["nanogpt"]["final_val_loss"]
    reached = next((row for row in curves["fast"] if row["val_loss"] <= target), None)
    return {
        **summaries,
        "target": target,
        "reached_at_step": reached["step"] if reached else None,
        "time_ratio": round(reached["seconds"] / summaries["nanogpt"]["seconds"], 4) if reached else None,
    }
