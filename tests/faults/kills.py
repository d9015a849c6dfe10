"""kill -9 at random moments of training, of resuming and of a study; afterwards nothing differs by a bit.

Half of the moments are of the clock, half are just before a random one of the file operations in the run's folder: what
goes wrong between two of those takes too short a time for a clock to meet.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.runs import to_json
from tests.faults.tiny_runs import contents, corpus, difference, go_on_words, reference
from tests.faults.trials import Ending, Process, Tally, again, chance, command

STEPS = 30
JOBS = 3
STUDY_SHARE = 0.2  # of the trials
OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree")  # audit events


def run(n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """At least n kills that hit a living process."""
    tally = Tally("kills")
    began = time.monotonic()
    whole = contents(reference(folder, STEPS))
    seconds = time.monotonic() - began
    operations = _count(folder)
    study = _Study(folder)

    def trial(number: int, dice: random.Random) -> tuple[int, str | None]:
        return _trial(whole, seconds, operations, dice, folder, number)

    kills, number = 0, case or 0
    while kills < n and (case is None or number == case):
        dice = chance(seed, "kills", number)
        in_study = dice.random() < STUDY_SHARE
        made = _study_trial(study, dice, folder, number) if in_study else trial(number, dice)
        hits, fault = made
        kills += hits
        what = f"{hits} kills of a {'study' if in_study else 'training'}"
        tally.add(f"case {number}, {what}", fault, again("kills", seed, number))
        number += 1
    tally.notes.append(f"{kills} kills in {tally.tried} trials")
    tally.tried = max(tally.tried, kills)
    return tally


def _before(operation: int, path: Path, then: Callable[[], None]) -> Callable[[], int]:
    """Watch the file operations in a folder, and act before the one of this number; returns how many there were."""
    count = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if event in OPERATIONS and any(isinstance(arg, str | os.PathLike) and str(path) in str(arg) for arg in args):
            count += 1
            if count == operation:
                then()

    sys.addaudithook(watch)
    return lambda: count


def _count(folder: Path) -> int:
    """How many file operations an undisturbed run makes in its folder."""
    path, told = folder / "counted", folder / "operations"

    def call() -> int:
        from lab.cli import main

        count = _before(0, path, lambda: None)
        code = main(go_on_words(path, corpus(folder), STEPS))
        told.write_text(str(count()))
        return code

    Process(call, folder / "counted.log").wait()
    return int(told.read_text())


def _killed(words: list[str], path: Path, seconds: float, operations: int, dice: random.Random, log: Path) -> Ending:
    """A command that is killed at a random moment, if it lives so long."""
    if dice.random() < 0.5:
        process = command(words, log)
        time.sleep(dice.uniform(0.0, seconds))
        process.kill()
        return process.wait()
    operation = dice.randint(1, operations)

    def call() -> int:
        from lab.cli import main

        _before(operation, path, lambda: os.kill(os.getpid(), signal.SIGKILL))
        return main(words)

    return Process(call, log).wait()


def _trial(
    whole: dict[str, Any], seconds: float, operations: int, dice: random.Random, folder: Path, number: int
) -> tuple[int, str | None]:
    """One run, killed up to three times and then left in peace."""
    path, log, text = folder / f"run{number}", folder / f"run{number}.log", corpus(folder)
    kills = 0
    for _ in range(dice.randint(1, 3)):
        ending = _killed(go_on_words(path, text, STEPS), path, seconds, operations, dice, log)
        kills += ending.killed
        if not ending.killed:
            if ending.fault:
                return kills, ending.fault
            break  # it was done before
    ending = command(go_on_words(path, text, STEPS), log).wait()
    if ending.fault:
        return kills, ending.fault
    fault = difference(path, whole)
    if fault is None:
        shutil.rmtree(path)
    return kills, fault


class _Study:
    """A study of a few tiny runs, and what it comes to undisturbed."""

    def __init__(self, folder: Path):
        self.folder = folder
        began = time.monotonic()
        self.whole = self.made(folder / "study-whole", folder / "study.log")
        self.seconds = time.monotonic() - began

    def make(self, path: Path):  # type: ignore[no-untyped-def]
        from tests.lab.studying import tiny_study

        return tiny_study(path, JOBS, steps=STEPS, corpus=corpus(self.folder))

    def worker(self, path: Path, log: Path) -> Process:
        def call() -> int:
            from lab.studies.worker import main

            return main([str(path)])

        return Process(call, log)

    def made(self, path: Path, log: Path) -> str:
        self.make(path)
        ending = self.worker(path, log).wait()
        if ending.fault:
            raise RuntimeError(f"the undisturbed study failed: {ending.said}")
        return self.result(path)

    def result(self, path: Path) -> str:
        """The table and every line of metrics, without the times."""
        from lab.studies import StudyFolder
        from tests.lab.studying import columns, table

        folder = StudyFolder(path)
        return to_json([table(folder), columns(folder)])


def _study_trial(study: _Study, dice: random.Random, folder: Path, number: int) -> tuple[int, str | None]:
    """A study whose worker is killed up to three times."""
    path, log = folder / f"study{number}", folder / f"study{number}.log"
    study.make(path)
    kills = 0
    for _ in range(dice.randint(1, 3)):
        process = study.worker(path, log)
        time.sleep(dice.uniform(0.0, study.seconds))
        process.kill()
        ending = process.wait()
        kills += ending.killed
        if ending.fault and not ending.killed:
            return kills, ending.fault
    for _ in range(2):  # a claim that was being signed may ask for a second look
        ending = study.worker(path, log).wait()
        if ending.fault:
            return kills, ending.fault
    if study.result(path) != study.whole:
        return kills, "another table or other metrics than undisturbed"
    shutil.rmtree(path)
    return kills, None
