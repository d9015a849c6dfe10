"""A worker: a process that takes one open job after another from a study's folder. Any number, on any machine.

    python -m lab.studies.worker FOLDER [--parent PID]

With a parent it ends when the parent has gone; asked to end (SIGTERM, Ctrl-C) it lets the run save and lets go of it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lab.runs import Run
from lab.studies.execute import Interrupted, execute, reason
from lab.studies.folder import Job, StudyFolder

POLL_SECONDS = 0.2
HOPELESS = 4  # exit code: the disk cannot be written, the corpus or the study not read; more workers would not help


class Stop:
    """Whether this process was asked to end: `with Stop() as stop:` listens to SIGTERM and SIGINT. The run in training
    is asked to save and end; a second signal ends the process at once."""

    def __init__(self) -> None:
        self.asked = False
        self.run: Run | None = None  # in training
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self.pass_on()

    def pass_on(self, row: Mapping[str, Any] | None = None) -> None:
        """Ask the run to stop, if we were asked to. Also called with each line of metrics: a request made while a
        run was just beginning is forgotten by it."""
        if self.asked and self.run is not None:
            with contextlib.suppress(OSError):  # not begun yet: asked again at its first line
                self.run.request_stop()


def open_jobs(folder: StudyFolder) -> Iterator[Job]:
    """The jobs without an outcome, in the order in which they are best done."""
    for job in folder.jobs():
        if folder.outcome(job.id) is None:
            yield job


def work(
    folders: Callable[[], Iterable[StudyFolder]],
    *,
    wait: Callable[[], bool],
    on_job: Callable[[StudyFolder, Job], None] | None = None,
) -> int:
    """Take open jobs from `folders()` until there are none and `wait()` says that none will come; returns how many
    were done. Ends early, with the run saved, when the process is asked to."""
    count = 0
    with Stop() as stop:
        while not stop.asked:
            did = False
            for folder in folders():
                for job in open_jobs(folder):
                    if stop.asked:
                        return count
                    try:
                        stop.run = folder.run(job)
                        if execute(folder, job, stop.pass_on):
                            did, count = True, count + 1
                            if on_job is not None:
                                on_job(folder, job)
                    except Interrupted:
                        return count
            if not did:
                if not wait():
                    return count
                time.sleep(POLL_SECONDS)
    return count


def _leave_with(parent: int) -> None:
    """End this process, as politely as SIGTERM does, when its parent has gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.studies.worker")
    parser.add_argument("folder")
    parser.add_argument("--parent", type=int)
    options = parser.parse_args(words)
    folder = StudyFolder(options.folder)
    if options.parent is not None:
        threading.Thread(target=_leave_with, args=(options.parent,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        try:
            work(lambda: [folder], wait=lambda: options.parent is not None)
        except (OSError, ValueError) as error:  # a full disk, a damaged file of the study
            with contextlib.suppress(OSError):  # that disk may be full, too
                sys.stderr.write(f"{reason(error) if isinstance(error, OSError) else error}\n")
            return HOPELESS
    return 0


if __name__ == "__main__":
    sys.exit(main())
