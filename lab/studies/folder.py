"""A study on disk: the plan, the jobs, who works on which, and what came of them. The files are the only state.

    <root>/<study>-<tier>/
      registration.json   the plan and its hash, written once, before the first run
      jobs/<id>.json      a run to be made      claims/<id>/   who is making it      done/<id>.json   what came of it
      runs/<arm>/<...>/   ordinary run folders (`lab.runs`)
      results.json, results.csv, report.html, report.md

A job is done when its file in `done` is there, and that is written last. Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lab.runs import Run, append_line, read_json, read_lines, runs_root, to_json, write_json
from lab.studies.definition import StudyError

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
        text = to_json([arm, phase, lr, seed, config, measures])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return Job(digest, arm, phase, lr, seed, f"runs/{arm}/{phase}-{lr:g}-{seed}-{digest[:8]}", config, measures)


@dataclass(frozen=True)
class Outcome:
    """What came of a job. Losses in nats per token over the whole validation split.

    state: done, diverged (non-finite or exploded; `step` says when) or failed (`error` says why).
    curve: [step, tokens, seconds, val_loss] of each evaluation. final_val_loss: None unless done.
    clipped: share of the steps whose gradient was clipped. measures: name -> number or numbers.
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
    measures: Mapping[str, Any] = field(default_factory=dict)


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
        """The plan as registered. Raises StudyError where no study was begun."""
        path = self.path / "registration.json"
        if not path.is_file():
            raise StudyError(f"There is no study in {self.path} (no registration.json in it).")
        return read_json(path)

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
            return
        self.path.mkdir(parents=True, exist_ok=True)
        for name in ("jobs", "claims", "done", "runs"):
            (self.path / name).mkdir(exist_ok=True)
        write_json(self.path / "registration.json", dict(registration))

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
        values = read_json(self.path / "jobs" / f"{name}.json")
        return Job(**{**values, "measures": tuple(values["measures"])})

    def outcome(self, job: str) -> Outcome | None:
        """What came of a job; None while nothing has."""
        path = self.path / "done" / f"{job}.json"
        if not path.is_file():
            return None
        values = read_json(path)
        return Outcome(**{**values, "curve": tuple(tuple(point) for point in values["curve"])})

    def outcomes(self) -> dict[str, Outcome]:
        """Job id -> outcome, of every job that is done with."""
        names = [path.stem for path in (self.path / "done").glob("*.json")]
        return {name: found for name in sorted(names) if (found := self.outcome(name)) is not None}

    def finish(self, outcome: Outcome) -> None:
        """Write an outcome; the job counts as done with from here on."""
        write_json(self.path / "done" / f"{outcome.job}.json", asdict(outcome))

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
        return any(event["event"] == "complete" for event in self.events())


def list_studies(root: str | os.PathLike[str] | None = None) -> list[StudyFolder]:
    """The studies begun below `root`, by name."""
    base = Path(root) if root is not None else studies_root()
    if not base.is_dir():
        return []
    return [StudyFolder(path) for path in sorted(base.iterdir()) if (path / "registration.json").is_file()]
