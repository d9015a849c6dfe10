"""Make one run of a study, in this process: train it or take it up again, measure it, write down what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lab.runs import Run, to_json
from lab.studies.claims import claim, died
from lab.studies.folder import Job, Outcome, StudyFolder
from lab.training import RunConfig

ATTEMPTS = 3  # workers that may be lost over a job before it counts as failed


class Interrupted(Exception):
    """The run was asked to stop and has saved; whoever takes the job next goes on with it."""


def execute(folder: StudyFolder, job: Job, on_step: Callable[[Mapping[str, Any]], None] | None = None) -> bool:
    """Do a job unless it is done or somebody does it; returns whether this call did it.

    A run that was begun is resumed, exactly; one that has ended is only measured. A run that cannot be made
    (configuration, memory) is written down as failed. Raises Interrupted, or OSError naming a file (a full disk):
    then nothing is written down and the job stays open.
    """
    if folder.outcome(job.id) is not None:
        return False
    held = claim(folder, job.id)
    if held is None:
        return False
    with held:
        if folder.outcome(job.id) is not None:  # finished between the two looks
            return False
        lost = died(folder, job.id)
        if lost >= ATTEMPTS:
            folder.finish(Outcome(job.id, "failed", 0, error=f"{lost} workers died over this run, the last one too"))
            return True
        try:
            outcome = _make(folder, job, on_step)
        except (ValueError, MemoryError, RuntimeError) as error:
            outcome = Outcome(job.id, "failed", 0, error=f"{type(error).__name__}: {error}")
        folder.finish(outcome)
    return True


def _make(folder: StudyFolder, job: Job, on_step: Callable[[Mapping[str, Any]], None] | None) -> Outcome:
    from lab.training.distributed import World
    from lab.training.run import execute as train
    from lab.training.run import resolve

    run, config = folder.run(job), RunConfig.from_dict(dict(job.config))
    data = prepared(to_json(config.data.to_dict()), config.model.n_ctx)
    if not run.exists():
        run.create(resolve(config, data, World()).to_dict())
    state = run.status().state
    if state not in ("done", "diverged"):
        state = train(run, data=data, on_step=on_step, clear=True)
    if state == "stopped":
        raise Interrupted(job.id)
    return _read(run, job, state, data)


@lru_cache(maxsize=4)
def prepared(data: str, n_ctx: int) -> Any:
    """The tokens of a data configuration (its JSON), read once a process: `lab.training.TrainingData`."""
    import json

    from lab.training import DataConfig, prepare_data
    from model import GPTConfig

    config = RunConfig(model=GPTConfig.preset("nano", n_ctx=n_ctx), data=DataConfig.from_dict(json.loads(data)))
    return prepare_data(config)


def _read(run: Run, job: Job, state: str, data: Any) -> Outcome:
    """An outcome from what the run wrote."""
    from lab.studies.measures import measure

    rows = run.metrics()
    curve = tuple(
        (int(row["step"]), int(row["tokens"]), float(row["seconds"]), float(row["val_loss"]))
        for row in rows
        if row.get("val_loss") is not None
    )
    finite = [(loss, step) for step, _, _, loss in curve if math.isfinite(loss)]
    best = min(finite, default=(None, None))
    done = state == "done"
    last = rows[-1] if rows else {}
    clipped = [row["clipped"] for row in rows if row.get("clipped") is not None]
    return Outcome(
        job=job.id,
        state="done" if done else "diverged",
        step=int(run.status().step),
        initial_loss=curve[0][3] if curve else None,
        final_val_loss=curve[-1][3] if done else None,
        best_val_loss=best[0],
        best_step=best[1],
        val_bpb=last.get("val_bpb") if done else None,
        train_loss=last.get("train_loss"),
        seconds=last.get("seconds"),
        tokens=last.get("tokens"),
        clipped=sum(clipped) / len(clipped) if clipped else None,
        error=None if done else run.status().error,
        curve=curve,
        measures=measure(job.measures, run, data) if done else {},
    )
