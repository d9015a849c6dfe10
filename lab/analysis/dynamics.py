"""The film of a training: one measure at every checkpoint of a run.

When does an induction head form (Olsson et al. 2022, arXiv 2209.11895)? When does a probe begin to work?
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.analysis.heads import SCORES, head_scores
from lab.analysis.probe_labels import read_labels
from lab.analysis.probes import fit_probes
from lab.analysis.prompts import resolve_choice
from lab.analysis.results import Result, frame
from lab.models import open_model
from lab.runs import Run, find_run
from model.checks import wholes

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

Measure = str | Callable[["GPT"], Any]
"""A head score ("induction", "previous_token", ...), "probe:LABELS" such as "probe:stories:pos", or a function of a
model that returns a number or an array, always of one shape."""


@dataclass(frozen=True, eq=False)
class Dynamics(Result):
    """A measure through training.

    steps     [checkpoint] optimizer steps done
    values    [checkpoint, ...] the measure; [checkpoint, layer, head] for head scores, [checkpoint, row] for probes
    labels    the name of each value of one checkpoint, in row-major order
    measure, run   what and where
    cancelled whether it was stopped before the last checkpoint
    """

    steps: np.ndarray
    values: np.ndarray
    labels: tuple[str, ...]
    measure: str
    run: str
    cancelled: bool = False

    @property
    def flat(self) -> np.ndarray:
        """[checkpoint, value]"""
        return self.values.reshape(len(self.steps), math.prod(self.values.shape[1:]))

    def reached(self, threshold: float) -> dict[str, int]:
        """Label -> first step at which its value is at least ``threshold``, for those that ever are."""
        found = {}
        for label, series in zip(self.labels, self.flat.T, strict=True):
            above = np.flatnonzero(series >= threshold)
            if len(above):
                found[label] = int(self.steps[above[0]])
        return found

    def to_frame(self) -> pandas.DataFrame:
        """A row for each checkpoint and value."""
        flat = self.flat
        return frame(
            {
                "step": np.repeat(self.steps, flat.shape[1]),
                "label": np.tile(np.array(self.labels, dtype=object), len(self.steps)),
                "value": flat.ravel(),
            }
        )


def checkpoint_dynamics(
    run: Run | str | os.PathLike[str],
    measure: Measure = "induction",
    *,
    steps: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Dynamics:
    """Take a measure at every checkpoint of a run, or at ``steps``, the earliest first.

    run: a run, its folder or its id. progress: told (checkpoints done, all); cancel: asked before each.
    ValueError for a run without checkpoints, a step it does not have, or an unknown measure.
    """
    run = run if isinstance(run, Run) else find_run(run)
    present = run.checkpoints()
    if not present:
        raise ValueError(f"Run {run.id} has no checkpoint yet: train it first.")
    chosen = present if steps is None else sorted(set(wholes(steps, "step")))
    missing = [step for step in chosen if step not in present]
    if missing:
        raise ValueError(f"Run {run.id} has no checkpoint at step {missing[0]}; it has {', '.join(map(str, present))}.")
    take, name = _measure(measure, run)

    done: list[int] = []
    values: list[np.ndarray] = []
    labels: tuple[str, ...] = ()
    for step in chosen:
        if cancel is not None and cancel():
            break
        # a diverged run's last checkpoints are part of the film: their values are not numbers
        value, labels = take(open_model(run.checkpoint_path(step), finite=False))
        if values and value.shape != values[0].shape:
            raise ValueError(
                f"Measure {name!r} gave {list(value.shape)} values and before that {list(values[0].shape)}."
            )
        done.append(step)
        values.append(value)
        if progress is not None:
            progress(len(done), len(chosen))
    return Dynamics(
        steps=np.array(done, dtype=int),
        values=np.stack(values) if values else np.zeros((0, 0)),
        labels=labels,
        measure=name,
        run=run.id,
        cancelled=len(done) < len(chosen),
    )


Take = Callable[["GPT"], tuple[np.ndarray, tuple[str, ...]]]


def _measure(measure: Measure, run: Run) -> tuple[Take, str]:
    """A function from a model to (values, their labels), and the measure's name."""
    if callable(measure):
        return _of_function(measure), getattr(measure, "__name__", type(measure).__name__)
    if measure.startswith("probe:"):
        labels = read_labels(measure.removeprefix("probe:"), run.tokenizer())

        def probe(model: GPT) -> tuple[np.ndarray, tuple[str, ...]]:
            found = fit_probes(model, labels, bootstrap=0)
            return found.accuracy, found.rows

        return probe, measure
    score = resolve_choice(measure, SCORES, "measure")

    def of_heads(model: GPT) -> tuple[np.ndarray, tuple[str, ...]]:
        values = getattr(head_scores(model), score)
        return values, tuple(f"L{layer}H{head}" for layer, head in np.ndindex(*values.shape))

    return of_heads, score


def _of_function(measure: Callable[[Any], Any]) -> Take:
    def take(model: GPT) -> tuple[np.ndarray, tuple[str, ...]]:
        values = np.asarray(measure(model), dtype=float)
        if values.ndim == 0:
            return values.reshape(1), (getattr(measure, "__name__", "value"),)
        return values, tuple(", ".join(map(str, index)) for index in np.ndindex(*values.shape))

    return take
