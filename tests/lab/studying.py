"""What the tests of studies share: tiny jobs on a tiny text, and what must be the same however they were made."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from lab.runs import write_json
from lab.studies import Job, StudyFolder
from lab.studies.reading import plan_digest
from lab.training import build_run_config

Starting: TypeAlias = "Callable[..., subprocess.Popen[str]]"  # the fixture of that name
SECONDS = 240.0  # that a process may take on a busy machine
TEXT = "the cat sat on the mat. a dog ran to the cat, and the cat ran up a tree.\n" * 60


def tiny_config(corpus: Path, seed: int = 0, lr: float = 1e-3, steps: int = 6) -> dict[str, Any]:
    """A run of a second: one layer of 16, its validation loss every other step."""
    return build_run_config(
        str(corpus),
        "nano",
        "textbook",
        seed=seed,
        steps=steps,
        model_overrides=dict(n_ctx=8, d_model=16, n_layers=1, n_heads=2, d_mlp=32),
        training_overrides=dict(
            lr=lr, batch_size=4, eval_every=2, log_every=1, warmup_steps=0, sample_every=0, threads=1, dynamics=False,
            checkpoint_early=False, checkpoint_every=1_000_000,
        ),
    ).to_dict()  # fmt: skip


def tiny_study(path: Path, seeds: int, *, steps: int = 6, corpus: Path | None = None) -> StudyFolder:
    """A study's folder with `seeds` jobs put up; its text lies beside it."""
    if corpus is None:
        corpus = path.parent / "cat.txt"
        corpus.write_text(TEXT, encoding="utf-8")
    folder = StudyFolder(path)
    plan = {"configs": {"a": tiny_config(corpus, steps=steps)}}
    folder.register({"sha256": plan_digest(plan), **plan})
    folder.add(Job.make("a", "confirm", 1e-3, seed, tiny_config(corpus, seed, steps=steps)) for seed in range(seeds))
    return folder


def worker(folder: StudyFolder) -> list[str]:
    """The words of a worker in a study's folder."""
    return ["-m", "lab.studies.worker", str(folder.path)]


def table(folder: StudyFolder) -> Mapping[str, Any]:
    """What a study is read from, without the times."""
    return {
        name: (
            found.state,
            found.step,
            found.final_val_loss,
            found.train_loss,
            [(s, t, v) for s, t, _, v in found.curve],
        )
        for name, found in folder.outcomes().items()
    }


TIMES = {"seconds", "wall_seconds"}


def columns(folder: StudyFolder) -> Mapping[str, Any]:
    """Every line of metrics of every run, as text and without the times: equal to the byte or not equal."""
    return {
        job.id: [repr([(k, v) for k, v in row.items() if k not in TIMES]) for row in folder.run(job).metrics()]
        for job in folder.jobs()
    }


def starts(folder: StudyFolder) -> list[int]:
    """How often each run was begun from nothing."""
    return [sum(e["event"] == "start" for e in folder.run(job).events()) for job in folder.jobs()]


def wait_for(what: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """The first true value of `what()`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing came in {seconds:g} s")


def change_owner(folder: StudyFolder, job: Job, **values: Any) -> None:
    """Let a claim say that somebody else made it."""
    from lab.runs import read_json

    path = folder.path / "claims" / job.id / "owner.json"
    write_json(path, read_json(path) | values)
