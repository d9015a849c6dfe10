"""The whole film of a run: what its training wrote down at each checkpoint, or the same taken from its checkpoints."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.analysis.dynamics import Dynamics, checkpoint_dynamics
from lab.analysis.heads import SCORES, head_scores
from lab.analysis.probe_labels import LabelledTokens
from lab.analysis.probes import fit_probes
from lab.runs import Run, find_run

if TYPE_CHECKING:
    from model.gpt import GPT

LAYER_MEASURES = ("residual_rms", "attn_rms", "mlp_rms", "grad_norm")
"""What training writes down for each layer: see ``lab.training.dynamics.measure_dynamics``."""


def recorded_film(run: Run | str | os.PathLike[str]) -> dict[str, Dynamics]:
    """Every measure in the run's dynamics.jsonl: head scores [checkpoint, layer, head], norms [checkpoint, layer].

    A null stands for a value that was not a number. {} for a run that wrote none. A line of another shape than the
    first, or without the measure, is left out: a run may be writing it.
    """
    run = run if isinstance(run, Run) else find_run(run)
    records = [record for record in run.dynamics() if isinstance(record.get("step"), int)]
    film = {}
    for measure in (*SCORES, *LAYER_MEASURES):
        rank = 2 if measure in SCORES else 1
        found = [(record["step"], _array(record.get(measure), rank)) for record in records]
        whole = [(step, value) for step, value in found if value is not None]
        whole = [(step, value) for step, value in whole if value.shape == whole[0][1].shape]
        if whole:
            values = np.stack([value for _, value in whole])
            film[measure] = Dynamics(
                steps=np.array([step for step, _ in whole], dtype=int),
                values=values,
                labels=_labels(values.shape[1:]),
                measure=measure,
                run=run.id,
            )
    return film


def measured_film(
    run: Run | str | os.PathLike[str],
    *,
    steps: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
) -> dict[str, Dynamics]:
    """Every head score at every checkpoint, taken now: for a run that wrote no dynamics. As ``checkpoint_dynamics``."""

    def every_score(model: GPT) -> np.ndarray:
        found = head_scores(model)
        return np.stack([getattr(found, name) for name in SCORES])  # [score, layer, head]

    taken = checkpoint_dynamics(run, every_score, steps=steps, progress=progress, cancel=cancel)
    if not len(taken.steps):
        return {}
    return {
        name: Dynamics(
            steps=taken.steps,
            values=taken.values[:, index],
            labels=_labels(taken.values.shape[2:]),
            measure=name,
            run=taken.run,
            cancelled=taken.cancelled,
        )
        for index, name in enumerate(SCORES)
    }


def probed_film(
    run: Run | str | os.PathLike[str],
    labels: LabelledTokens,
    *,
    site: str = "resid_post",
    examples: int = 12_000,
    seed: int = 0,
    steps: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Dynamics:
    """Accuracy of probes [checkpoint, row], fitted anew at every checkpoint of a run: see ``fit_probes``."""
    rows: tuple[str, ...] = ()

    def accuracy(model: GPT) -> np.ndarray:
        nonlocal rows
        found = fit_probes(model, labels, site=site, examples=examples, seed=seed, bootstrap=0)
        rows = found.rows
        return found.accuracy

    taken = checkpoint_dynamics(run, accuracy, steps=steps, progress=progress, cancel=cancel)
    return dataclasses.replace(taken, labels=rows, measure=f"accuracy of probes for {labels.name}")


def _array(value: Any, rank: int) -> np.ndarray | None:
    try:
        found = np.array(value, dtype=float)  # None becomes NaN
    except (TypeError, ValueError):
        return None
    return found if found.ndim == rank and found.size else None


def _labels(shape: tuple[int, ...]) -> tuple[str, ...]:
    names = ("L{}H{}" if len(shape) == 2 else "L{}").format
    return tuple(names(*index) for index in np.ndindex(*shape))
