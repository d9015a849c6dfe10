"""A run's folder that is renamed, deleted or taken apart while it trains: no traceback or hang; the rest goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.runs import Run
from tests.faults.tiny_runs import contents, corpus, difference, go_on_words, reference, train_words
from tests.faults.trials import Tally, again, cases, chance, command

STEPS = 60


def _rename(path: Path) -> Path:
    return path.rename(path.with_name(f"{path.name}-elsewhere"))


def _delete(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _replace_by_a_file(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}-aside"))
    path.write_text("x")


def _without(*names: str) -> Callable[[Path], Path]:
    def act(path: Path) -> Path:
        for name in names:
            place = path / name
            shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
        return path

    return act


ACTS: dict[str, tuple[Callable[[Path], Path | None], bool]] = {  # what is done, and whether nothing may be lost
    "renamed": (_rename, True),
    "deleted": (_delete, False),
    "replaced by a file": (_replace_by_a_file, False),
    "checkpoints removed": (_without("checkpoints"), False),
    "control removed": (_without("control"), True),
    "status.json removed": (_without("status.json"), True),
    "metrics.jsonl removed": (_without("metrics.jsonl"), False),
    "events.jsonl and provenance.json removed": (_without("events.jsonl", "provenance.json"), False),
}


def run(n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """n trials, of each sort in turn."""
    tally = Tally("moved")
    whole = contents(reference(folder, STEPS))
    for number in cases(n, case):
        name = list(ACTS)[number % len(ACTS)]
        wait = chance(seed, "moved", number).uniform(0.0, 0.4)
        fault = _trial(name, wait, folder / f"run{number}", folder, whole)
        tally.add(f"case {number}, {name} after {wait:.2f} s", fault, again("moved", seed, number))
    return tally


def _trial(name: str, wait: float, path: Path, folder: Path, whole: dict[str, Any]) -> str | None:
    act, harmless = ACTS[name]
    text, log = corpus(folder), folder / f"{path.name}.log"
    process = command(train_words(path, text, STEPS), log)
    until = time.monotonic() + 60
    while not (path / "checkpoints" / "step_000001").is_dir() and time.monotonic() < until:
        time.sleep(0.005)
    time.sleep(wait)
    left = act(path)
    ending = process.wait()
    if ending.fault:
        return ending.fault
    if left is None:
        return None
    ending = command(go_on_words(left, text, STEPS), log).wait()
    if ending.fault or not harmless:
        return ending.fault
    if Run(left).status().state != "done":
        return f"it cannot go on: {ending.said.strip()[:200]}"
    return difference(left, whole)
