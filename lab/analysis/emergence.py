"""When did each value of a measure become what it is?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.analysis.dynamics import Dynamics
from lab.analysis.results import Result, frame

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Formation(Result):
    """When each value of a measure became what it is; a row for each value of ``Dynamics.flat``.

    labels        the value's name, "L0H1"
    reached       first step at which it is at least the threshold; -1: at no checkpoint
    final         at the last checkpoint; largest: at any, at step ``largest_at``
    change        its largest change, up or down, from one checkpoint to the next; NaN with one checkpoint
    between       [value, 2] the steps of these two checkpoints
    threshold, measure, run   what was asked of what
    """

    labels: tuple[str, ...]
    reached: np.ndarray
    final: np.ndarray
    largest: np.ndarray
    largest_at: np.ndarray
    change: np.ndarray
    between: np.ndarray
    threshold: float
    measure: str
    run: str

    def to_frame(self) -> pandas.DataFrame:
        """A row for each value."""
        return frame(
            {
                "label": np.array(self.labels, dtype=object),
                "reached": self.reached,
                "final": self.final,
                "largest": self.largest,
                "largest_at": self.largest_at,
                "change": self.change,
                "change_from": self.between[:, 0],
                "change_to": self.between[:, 1],
            }
        )


def formation(dynamics: Dynamics, threshold: float) -> Formation:
    """When each value of a measure first reaches a threshold, and between which checkpoints it changes most.

    A change is taken from one checkpoint to the next, however many steps lie between: early checkpoints are spaced by
    powers of two, so a change is one over a doubling of training. ValueError for a film without checkpoints.
    """
    if not len(dynamics.steps):
        raise ValueError(f"The film of {dynamics.measure!r} in {dynamics.run} has no checkpoints.")
    flat, steps = dynamics.flat, dynamics.steps
    first = dynamics.reached(threshold)
    known = np.where(np.isfinite(flat), flat, -np.inf)
    at = known.argmax(0)
    columns = np.arange(flat.shape[1])
    change, between = np.full(flat.shape[1], np.nan), np.tile(steps[[0, 0]], (flat.shape[1], 1))
    if len(steps) > 1:
        moves = np.diff(flat, axis=0)
        where = np.where(np.isfinite(moves), np.abs(moves), -1.0).argmax(0)
        change = moves[where, columns]
        between = np.stack([steps[where], steps[where + 1]], axis=1)
    return Formation(
        labels=dynamics.labels,
        reached=np.array([first.get(label, -1) for label in dynamics.labels]),
        final=flat[-1],
        largest=flat[at, columns],
        largest_at=steps[at],
        change=change,
        between=between,
        threshold=threshold,
        measure=dynamics.measure,
        run=dynamics.run,
    )
