"""A study on disk: the plan, the jobs, who works on which, and what came of them. The files are the only state.

    <root>/<study>-<tier>/
      registration.json   the plan and its hash, written once, before the first run
      jobs/<id>.json      a run to be made      claims/<id>/   who is making it      done/<id>.json   what came of it
      runs/<arm>/<...>/   ordinary run folders (`lab.runs`)
      results.json, results.csv, report.html, report.md

A job is done when its file in `done` is there, and that is written last. A plan, a job and an outcome carry a digest
that is computed again whenever they are read. Nothing here imports torch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lab.runs import Run, append_line, read_json, read_lines, runs_root, write_json
from lab.studies.definition import StudyError
from lab.studies.reading import digest, read_registration, sealed, typed

Phase = Literal["tune", "confirm", "aa"]
State = Literal["done", "diverged", "failed"]


@dataclass(frozen=True)
class Job:
    """A run to be made: of which arm, for what, at which learning rate and seed, and what is measured of it.

    run: the run folder, relative to the study's. config: `RunConfig.to_dict()`.
    """

    id: str
    arm: str
    phase: Phase
    lr: float
    seed: int
    run: str
    config: Mapping[str, Any]
    measures: tuple[str, ...] = ()

    @staticmethod
    def make(
        arm: str, phase: Phase, lr: float, seed: int, config: Mapping[str, Any], measures: Iterable[str] = ()
    ) -> Job:
        """A job whose id is the hash of everything in it: asked for twice, it is the same job."""
        measures = tuple(measures)
        name = digest([arm, phase, lr, seed, config, measures])[:12]
        return Job(name, arm, phase, lr, seed, f"runs/{arm}/{phase}-{lr:g}-{seed}-{name[:8]}", config, measures)


@dataclass(frozen=True)
class Outcome:
    """What came of a job. Losses in nats per token over the whole validation split.

    state: done, diverged (non-finite or exploded; `step` says when) or failed (`error` says why).
    curve: [step, tokens, seconds, val_loss] of each evaluation. final_val_loss: None unless done.
    clipped: share of the steps whose gradient was clipped. measures: name -> number or numbers.
    again: it failed for no reason of its own (workers that died, files that were lost): a study that is started again
    makes it again.
    """

    job: str
    state: State
    step: int
    initial_loss: float | None = None
    final_val_loss: float | None = None
    best_val_loss: float | None = None
    best_step: int | None = None
    val_bpb: float | None = None
    train_loss: float | None = None
    seconds: float | None = None
    tokens: int | None = None
    clipped: float | None = None
    error: str | None = None
    curve: tuple[tuple[int, int, float, float], ...] = ()
    measures: Mapping[str, float | Sequence[float | None] | None] = field(default_factory=dict)
    again: bool = False


def studies_root() -> Path:
    """Where studies live: `studies` in the folder of the runs."""
    return runs_root() / "studies"


class StudyFolder:
    """The folder of one study at one tier. Reading never fails on a file that is being written."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"StudyFolder({str(self.path)!r})"

    @property
    def registration(self) -> dict[str, Any]:
        """The plan as registered. Raises StudyError where no study was begun, or the plan was changed since then."""
        path = self.path / "registration.json"
        if not path.is_file():
            raise StudyError(f"There is no study in {self.path} (no registration.json in it).")
        return read_registration(path)

    @property
    def registered(self) -> bool:
        return (self.path / "registration.json").is_file()

    def register(self, registration: Mapping[str, Any]) -> None:
        """Write the plan down, before anything is run. The same plan again changes nothing; another is refused."""
        if self.registered:
            have, want = self.registration["sha256"], registration["sha256"]
            if have != want:
                raise StudyError(
                    f"{self.path} holds another plan (registered as {have[:12]}, this one is {want[:12]}). A plan is "
                    "not changed once it is registered: choose another folder with --root, or delete this one."
                )
        for name in ("jobs", "claims", "done", "runs"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        if not self.registered:
            write_json(self.path / "registration.json", sealed(registration))

    # --- jobs and what came of them ---------------------------------------------------------------------------------

    def add(self, jobs: Iterable[Job]) -> None:
        """Put jobs up for whoever works here; those that are there already stay."""
        for job in jobs:
            path = self.path / "jobs" / f"{job.id}.json"
            if not path.is_file():
                write_json(path, asdict(job), durable=False)

    def jobs(self) -> list[Job]:
        """Every job put up so far, in the order of phase, seed, learning rate and arm."""
        found = [self.job(path.stem) for path in sorted((self.path / "jobs").glob("*.json"))]
        order = {"tune": 0, "confirm": 1, "aa": 2}
        return sorted(found, key=lambda job: (order[job.phase], job.seed, job.lr, job.arm))

    def job(self, name: str) -> Job:
        """A job by its id. Raises StudyError where its file is not what was put up."""
        path = self.path / "jobs" / f"{name}.json"
        job: Job = typed(Job, read_json(path), path)
        made = Job.make(job.arm, job.phase, job.lr, job.seed, job.config, job.measures)
        if job != made or job.id != name:
            raise StudyError(
                f"{path} was changed after it was written: it is job {made.id} now. Put the old file back."
            )
        return job

    def outcome(self, job: str) -> Outcome | None:
        """What came of a job; None while nothing has. Raises StudyError where its file is not what was written."""
        path = self.path / "done" / f"{job}.json"
        try:
            values = read_json(path)
        except FileNotFoundError:
            return None
        said = values.pop("sha256", None)
        outcome: Outcome = typed(Outcome, values, path)
        if said is None and "seal" in self.registration:
            raise StudyError(f"{path} was changed after it was written: its sha256 is gone. {self._make_again(job)}")
        if said is not None and said != (found := digest(values)):
            raise StudyError(
                f"{path} was changed after it was written (as sha256 {str(said)[:12]}, it is now {found[:12]}). "
                f"{self._make_again(job)}"
            )
        if outcome.job != job:
            raise StudyError(f"{path} is the outcome of another job, {outcome.job}. {self._make_again(job)}")
        return outcome

    def _make_again(self, job: str) -> str:
        return f"Put the old file back, or delete it and start the study again: then run {job} is measured again."

    def outcomes(self) -> dict[str, Outcome]:
        """Job id -> outcome, of every job that is done with."""
        names = [path.stem for path in (self.path / "done").glob("*.json")]
        return {name: found for name in sorted(names) if (found := self.outcome(name)) is not None}

    def finish(self, outcome: Outcome) -> None:
        """Write an outcome; the job counts as done with from here on."""
        values = asdict(outcome)
        write_json(self.path / "done" / f"{outcome.job}.json", {**values, "sha256": digest(values)})

    def reopen(self) -> list[str]:
        """Put up again the jobs that failed for no reason of their own; returns their ids.

        Tuning runs only as long as no learning rates are chosen: a rate is not changed under the runs that confirm it.
        """
        tuned = any(event.get("event") == "tuned" for event in self.events())
        names = [name for name, found in self.outcomes().items() if found.again]
        names = [name for name in names if not tuned or self.job(name).phase != "tune"]
        if names:
            self.event("reopened", jobs=names)
        for name in names:
            for lost in (self.path / "claims").glob(f".{name}-*"):
                shutil.rmtree(lost)
            (self.path / "done" / f"{name}.json").unlink()
        return names

    def run(self, job: Job) -> Run:
        """The run folder of a job."""
        return Run(self.path / job.run)

    # --- the study as a whole ---------------------------------------------------------------------------------------

    def event(self, kind: str, **details: Any) -> None:
        """Add a line to events.jsonl."""
        import time

        append_line(self.path / "events.jsonl", {"event": kind, "time": time.time(), **details})

    def events(self) -> list[dict[str, Any]]:
        return read_lines(self.path / "events.jsonl")

    @property
    def complete(self) -> bool:
        """Whether the study has said its last word."""
        words = [event.get("event") for event in self.events() if event.get("event") in ("complete", "reopened")]
        return words[-1:] == ["complete"]


def list_studies(root: str | os.PathLike[str] | None = None) -> list[StudyFolder]:
    """The studies begun below `root`, by name."""
    base = Path(root) if root is not None else studies_root()
    if not base.is_dir():
        return []
    return [StudyFolder(path) for path in sorted(base.iterdir()) if (path / "registration.json").is_file()]
