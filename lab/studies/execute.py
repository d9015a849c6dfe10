"""Make one run of a study, in this process: train it or take it up again, measure it, write down what came of it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lab.runs import Run, RunBusyError, read_json, to_json, write_json
from lab.studies.claims import Claim, ClaimLost, claim, died
from lab.studies.definition import StudyError
from lab.studies.folder import Job, Outcome, StudyFolder
from lab.studies.reading import typed
from lab.training import RunConfig

ATTEMPTS = 3  # workers that may be lost over a job without a new checkpoint before it counts as failed


OnStep = Callable[[Mapping[str, Any]], None]


class Interrupted(Exception):
    """The run was asked to stop and has saved; whoever takes the job next goes on with it."""


class LostRecords(ValueError):
    """A run that has ended, and whose metrics are not all there any more."""


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
    (configuration, memory), or whose metrics are gone, is written down as failed. Raises Interrupted,
    DataUnavailable, or OSError naming a file (a full disk): then nothing is written down and the job stays open.
    """
    if folder.outcome(job.id) is not None:
        return False
    start = max(folder.run(job).checkpoints(), default=0)
    held = claim(folder, job.id, start=start)
    if held is None:
        return False
    with held:
        if folder.outcome(job.id) is not None:  # finished between the two looks
            return False
        lost = died(folder, job.id, start)
        if lost >= ATTEMPTS:
            error = f"{lost} workers died over this run at step {start} or soon after it, the last one too"
            folder.finish(Outcome(job.id, "failed", start, error=error, again=True))
            return True
        try:
            outcome = _make(folder, job, held, on_step)
            held.check()
        except (RunBusyError, ClaimLost):  # another process trains the run; the job is its
            return False
        except LostRecords as error:
            outcome = Outcome(job.id, "failed", folder.run(job).status().step, error=str(error), again=True)
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
    first = typed(_Data, read_json(path), path)
    for name, value in record.items():
        if getattr(first, name) != value:
            raise DataUnavailable(
                f"the {name.removesuffix('_sha256')} of {folder.path.name} is another one on this machine (sha256 "
                f"{value[:12]}) than where its first run was made ({getattr(first, name)[:12]}); bring the same "
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


@dataclass(frozen=True)
class _Data:
    """Which corpus and tokenizer the first run of a study had."""

    corpus_sha256: str
    tokenizer_sha256: str


@dataclass(frozen=True)
class _Line:
    """What is read of a line of a run's metrics."""

    step: int
    tokens: int
    seconds: float
    val_loss: float | None = None
    val_bpb: float | None = None
    train_loss: float | None = None
    clipped: float | None = None


def _read(run: Run, job: Job, state: str, data: Any) -> Outcome:
    """An outcome from what the run wrote. Raises LostRecords where not all of it is there."""
    from lab.studies.measures import measure

    status, training = run.status(), RunConfig.from_dict(dict(job.config)).training
    lines = _lines(run, status.step, training.steps, (training.eval_every, training.log_every))
    curve = tuple((line.step, line.tokens, line.seconds, line.val_loss) for line in lines if line.val_loss is not None)
    best = min(((loss, step) for step, _, _, loss in curve), default=(None, None))
    first, last = lines[0], lines[-1]
    done = state == "done" and last.val_loss is not None
    error = None if done else status.error or f"the validation loss of step {last.step} is not finite"
    clipped = [line.clipped for line in lines if line.clipped is not None]
    measures, problem = measure(job.measures, run, data) if done else ({}, None)
    return Outcome(
        job=job.id,
        state="done" if done else "diverged",
        step=status.step,
        initial_loss=first.val_loss,
        final_val_loss=last.val_loss if done else None,
        best_val_loss=best[0],
        best_step=best[1],
        val_bpb=last.val_bpb if done else None,
        train_loss=last.train_loss,
        seconds=last.seconds,
        tokens=last.tokens,
        clipped=sum(clipped) / len(clipped) if clipped else None,
        error=error or problem,
        curve=curve,
        measures=measures,
    )


def _lines(run: Run, step: int, steps: int, every: tuple[int, int]) -> list[_Line]:
    """The lines of metrics of a run that has ended at `step`: from step 0 on, none missing, none twice."""
    path = run.path / "metrics.jsonl"
    again = f"Delete {run.path} and start the study again to make this run anew."
    try:
        lines: list[_Line] = [typed(_Line, row, path) for row in run.metrics()]
    except StudyError as error:
        raise LostRecords(f"{error}. {again}") from None
    due = {at for each in every for at in range(0, step + 1, each)} | ({step} if step == steps else set())
    found = [line.step for line in lines]
    if found not in (sorted(due), [*sorted(due), step]):  # a run that diverged ends with a line of its own
        missing = sorted(due - set(found))
        what = f"it has no line of step {missing[0]}" if missing else "its lines are not in the order of the steps"
        raise LostRecords(f"{path} is not whole: {what}. {again}")
    return lines
