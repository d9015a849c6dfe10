"""Runs of a second or two, and what of a run must be equal to the bit however often it was interrupted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from lab.runs import Run, read_json, to_json
from lab.runs.checkpoints import DIGESTS, OWN_DIGEST
from tests.faults.trials import said_by

TEXT = "the cat sat on the mat. a dog ran to the cat, and the cat ran up a tree.\n" * 60
SHAPE = "--model.d-model 16 --model.n-layers 2 --model.n-heads 2 --model.n-ctx 16 --model.resid-dropout 0.1".split()
SCHEDULE = (
    "--training.eval-every 5 --training.log-every 3 --training.checkpoint-every 7 --training.sample-every 5 "
    "--training.sample-tokens 6 --training.batch-size 4 --training.threads 1 --training.device cpu --quiet"
).split()
TIMES = ("seconds", "wall_seconds", "time")


def corpus(folder: Path) -> Path:
    """The text of the tiny runs."""
    path = folder / "cat.txt"
    if not path.is_file():
        path.write_text(TEXT, encoding="utf-8")
    return path


def train_words(run: Path, text: Path, steps: int, *more: str) -> list[str]:
    """The words that begin a run."""
    return ["train", "--corpus", str(text), "--run", str(run), "--steps", str(steps), *SHAPE, *SCHEDULE, *more]


def go_on_words(run: Path, text: Path, steps: int) -> list[str]:
    """The words that begin a run, or take up the one that is there."""
    if (run / "config.json").is_file():
        return ["train", "--resume", str(run), "--quiet"]
    return train_words(run, text, steps)


def reference(folder: Path, steps: int, *more: str) -> Path:
    """A run that nobody interrupts."""
    ending = said_by(train_words(folder / "whole", corpus(folder), steps, *more), folder / "whole.log")
    if ending.code != 0:
        raise RuntimeError(f"the undisturbed run failed: {ending.said}")
    return folder / "whole"


def contents(path: Path) -> dict[str, Any]:
    """Everything of a run that must not depend on interruptions: numbers of every file, tensors by their bytes."""
    run = Run(path)
    steps = run.checkpoints()
    found: dict[str, Any] = {
        "state": (run.status().state, run.status().step),
        "metrics": [_timeless(row) for row in run.metrics()],
        "samples": run.samples(),
        "dynamics": run.dynamics(),
        "best.json": run.best(),
        "checkpoints": steps,
        "events": [
            (row.get("event"), row.get("step")) for row in run.events() if row.get("event") in ("checkpoint", "done")
        ],
        "leftovers": sorted(str(p.relative_to(path)) for p in path.rglob(".*") if p.name.endswith(".tmp")),
    }
    for step in steps:
        folder = run.checkpoint_path(step)
        for file in ("model.safetensors", "optimizer.safetensors"):
            found[f"{file} of {step}"] = _tensors(folder / file)
        found[f"state.json of {step}"] = _timeless(read_json(folder / "state.json"))
    return found


def difference(path: Path, whole: dict[str, Any]) -> str | None:
    """The first thing in which a run differs from one that was not interrupted; None: equal to the bit."""
    try:
        mine = contents(path)
    except (ValueError, OSError, KeyError) as error:
        return f"cannot be read: {error}"
    for name in sorted(whole.keys() | mine.keys()):
        if mine.get(name) != whole.get(name):
            return f"{name} differs: {to_json(mine.get(name))[:160]} instead of {to_json(whole.get(name))[:160]}"
    return None


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    # The digest of a file of tensors goes with the order of its header, which is not fixed, and a state's own with its
    # times: the tensors and the state's values are compared instead.
    return {name: value for name, value in row.items() if name not in TIMES and name not in _DIGESTS}


_DIGESTS = (DIGESTS, OWN_DIGEST)


def _tensors(path: Path) -> str | None:
    """A digest of the tensors of a safetensors file, by name: the order of the file's header is not fixed."""
    from safetensors.numpy import load_file

    if not path.is_file():
        return None
    digest = hashlib.sha256()
    for name, values in sorted(load_file(path).items()):
        digest.update(f"{name} {values.shape} {values.dtype}".encode() + values.tobytes())
    return digest.hexdigest()
