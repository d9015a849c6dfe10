"""Make one run of a study, in this process: train it or take it up again, measure it, write down what came of it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lab.runs import Run, RunBusyError, read_json, to_json, write_json
from lab.studies.claims import Claim, ClaimLost, claim, died
from lab.studies.folder import Job, Outcome, StudyFolder
from lab.training import RunConfig

ATTEMPTS = 3  # workers that may be lost over a job before it counts as failed


OnStep = Callable[[Mapping[str, Any]], None]


class Interrupted(Exception):
    """The run was asked to stop and has saved; whoever takes the job next goes on with it."""


class DataUnavailable(OSError):
    """This machine cannot read the study's corpus, or reads another text; the run is left to another machine."""


def reason(error: OSError) -> str:
    """Why a machine can make no run, as a part of a sentence; a full disk is called that."""
    if disk_full(error):
        written = f"no space is left to write {error.filename}" if error.filename else str(error)
        return f"the disk is full ({written}); make room on it"
    return str(error)


def disk_full(error: OSError) -> bool:
    """Whether a disk, or one's share of it, is full. Libraries that write themselves tell it in words alone."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error)


def execute(folder: StudyFolder, job: Job, on_step: OnStep | None = None) -> bool:
    """Do a job unless it is done or somebody does it; returns whether this call did it.

    A run that was begun is resumed, exactly; one that has ended is only measured. A run that cannot be made
    (configuration, memory) is written down as failed. Raises Interrupted, DataUnavailable, or OSError naming a file
    (a full disk): then nothing is written down and the job stays open.
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
            outcome = _make(folder, job, held, on_step)
            held.check()
        except (RunBusyError, ClaimLost):  # another process trains the run; the job is its
            return False
        except (ValueError, MemoryError, RuntimeError) as error:
            outcome = Outcome(job.id, "failed", 0, error=f"{type(error).__name__}: {error}")
        folder.finish(outcome)
    return True


def _make(folder: StudyFolder, job: Job, held: Claim, on_step: OnStep | None) -> Outcome:
    from lab.training.distributed import World
    from lab.training.run import execute as train
    from lab.training.run import resolve

    def step(row: Mapping[str, Any]) -> None:
        if held.lost:
            held.check()
        if on_step is not None:
            on_step(row)

    run, config = folder.run(job), RunConfig.from_dict(dict(job.config))
    data = study_data(folder, config)
    if not run.exists():
        run.create(resolve(config, data, World()).to_dict())
    state = run.status().state
    if state not in ("done", "diverged"):
        state = train(run, data=data, on_step=step, clear=True)
    if state == "stopped":
        raise Interrupted(job.id)
    return _read(run, job, state, data)


def study_data(folder: StudyFolder, config: RunConfig) -> Any:
    """The tokens for a run of a study: the very ones its other runs have, whichever machine reads them.

    Raises DataUnavailable. That they can be trained on at all was seen when the study was planned.
    """
    text = to_json(config.data.to_dict())
    try:
        data = prepared(text, config.model.n_ctx)
    except (ValueError, OSError) as error:
        raise DataUnavailable(f"the corpus of {folder.path.name} cannot be read on this machine: {error}") from error
    record = {"corpus_sha256": data.corpus.sha256, "tokenizer_sha256": data.tokenizer.sha256}
    path = folder.path / "data" / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            write_json(path, {"data": config.data.to_dict(), **record}, exclusive=True)
    first = read_json(path)
    for name, value in record.items():
        if first[name] != value:
            raise DataUnavailable(
                f"the {name.removesuffix('_sha256')} of {folder.path.name} is another one on this machine (sha256 "
                f"{value[:12]}) than where its first run was made ({first[name][:12]}); bring the same "
                f"{config.data.corpus} and the same version of residlab here"
            )
    return data


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
