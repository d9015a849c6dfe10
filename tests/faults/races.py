"""Two processes after one run: both starting, both resuming, two workers of a study. One wins, the other says so."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lab.runs import to_json
from tests.faults.kills import JOBS, _Study
from tests.faults.tiny_runs import contents, corpus, difference, go_on_words, reference, train_words
from tests.faults.trials import Ending, Process, Tally, again, cases, chance, command

STEPS = 30


def run(n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """n races, of each sort in turn."""
    tally = Tally("races")
    whole = contents(reference(folder, STEPS))
    study = _Study(folder)
    sorts = ("two starts", "two resumes", "a start and a resume", "two workers")
    for number in cases(n, case):
        sort, dice = sorts[number % len(sorts)], chance(seed, "races", number)
        wait = dice.choice([0.0, 0.0, dice.uniform(0, 0.5)])
        if sort == "two workers":
            fault = _workers(study, folder / f"study{number}", folder, wait)
        else:
            fault = _trainers(sort, folder / f"run{number}", folder, wait, whole, dice.uniform(0.2, 1.0))
        tally.add(f"case {number}, {sort}, {wait:.2f} s apart", fault, again("races", seed, number))
    return tally


def _together(first: Process, wait: float, begin: object) -> tuple[Ending, Ending]:
    time.sleep(wait)
    second = begin()  # type: ignore[operator]
    return first.wait(), second.wait()


def _trainers(sort: str, path: Path, folder: Path, wait: float, whole: dict[str, Any], killed_at: float) -> str | None:
    text, logs = corpus(folder), (folder / f"{path.name}-a.log", folder / f"{path.name}-b.log")
    if sort == "two resumes":
        started = command(train_words(path, text, STEPS), logs[0])
        until = time.monotonic() + 60
        while not (path / "checkpoints").is_dir() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(killed_at * 0.3)
        started.kill()
        started.wait()
    words = go_on_words(path, text, STEPS)
    second = ["train", "--resume", str(path), "--quiet"] if sort == "a start and a resume" else words
    endings = _together(command(words, logs[0]), wait, lambda: command(second, logs[1]))
    for ending in endings:
        if ending.fault:
            return ending.fault
        if ending.code not in (0, 2) or (ending.code == 2 and len(ending.said.strip().splitlines()) != 1):
            return f"exit code {ending.code}, it says {ending.said.strip()[:200]!r}"
    last = command(go_on_words(path, text, STEPS), logs[0]).wait()
    return last.fault or difference(path, whole)


def _workers(study: _Study, path: Path, folder: Path, wait: float) -> str | None:
    from lab.studies import StudyFolder
    from tests.lab.studying import starts

    study.make(path)
    logs = (folder / f"{path.name}-a.log", folder / f"{path.name}-b.log")
    endings = _together(study.worker(path, logs[0]), wait, lambda: study.worker(path, logs[1]))
    fault = next((ending.fault for ending in endings if ending.fault), None)
    if fault:
        return fault
    if starts(StudyFolder(path)) != [1] * JOBS:
        return f"runs were begun {to_json(starts(StudyFolder(path)))} times"
    return None if study.result(path) == study.whole else "another table or other metrics than with one worker"
