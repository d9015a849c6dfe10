"""How a run did, in a few numbers; read once and remembered until its files change."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lab.runs.files import written
from lab.runs.folder import Run

KEPT = 4096  # runs whose numbers are remembered
TIMED = 20  # the last so many lines of metrics tell the pace


@dataclass(frozen=True)
class Losses:
    """Of a run's metrics: losses in nats per token, None where nothing was measured.

    seconds: of training alone, up to the last line. pace: seconds a step by the clock on the wall, over the last lines.
    """

    train: float | None = None
    val: float | None = None
    best: float | None = None
    best_step: int | None = None
    seconds: float | None = None
    pace: float | None = None


def losses(run: Run) -> Losses:
    """The losses of a run. Raises OSError naming a file that cannot be read."""
    path = run.path / "metrics.jsonl"
    stamp = written(path)
    return Losses() if stamp is None else _losses(str(run.path), stamp)


@lru_cache(maxsize=KEPT)
def _losses(path: str, stamp: tuple[int, ...]) -> Losses:
    del stamp  # part of the key
    metrics = Run(path).metrics()
    val = [(row["val_loss"], row["step"]) for row in metrics if row.get("val_loss") is not None]
    best = min(val, default=(None, None))
    return Losses(
        train=latest(metrics, "train_loss"),
        val=val[-1][0] if val else None,
        best=best[0],
        best_step=best[1],
        seconds=latest(metrics, "seconds"),
        pace=seconds_a_step(metrics),
    )


def latest(metrics: Sequence[dict[str, Any]], name: str) -> float | None:
    """The newest value of a column of metrics; None where there is none."""
    return next((row[name] for row in reversed(metrics) if row.get(name) is not None), None)


def seconds_a_step(metrics: Sequence[dict[str, Any]]) -> float | None:
    """The pace of the last lines of metrics, by the clock on the wall; None while that is unknown."""
    timed = [(row["step"], row["wall_seconds"]) for row in metrics[-TIMED:] if row.get("wall_seconds")]
    if len(timed) < 2 or timed[-1][0] <= timed[0][0] or timed[-1][1] <= timed[0][1]:
        return None
    return float((timed[-1][1] - timed[0][1]) / (timed[-1][0] - timed[0][0]))
