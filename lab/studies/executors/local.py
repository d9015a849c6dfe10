"""Runs on this machine: a process a core, one thread each. They take jobs as any worker does, and stay warm."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from lab.studies.claims import owner
from lab.studies.execute import ATTEMPTS
from lab.studies.executors import ExecutorError, OnChange, Progress
from lab.studies.folder import Job, StudyFolder
from lab.studies.worker import HOPELESS

POLL_SECONDS = 0.3
PATIENCE_SECONDS = 30.0  # for runs to save when asked to stop


class LocalExecutor:
    """`workers` processes (None: one a core this process may use)."""

    def __init__(self, workers: int | None = None):
        if workers is not None and workers < 1:
            raise ValueError(f"workers is {workers}; it must be at least 1.")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers = workers or cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log: IO[bytes] | None = None

    def __enter__(self) -> LocalExecutor:
        self._log = tempfile.TemporaryFile()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._log is not None:
            self._log.close()

    def run(self, folder: StudyFolder, jobs: Sequence[Job], on_change: OnChange | None = None) -> None:
        """See `Executor.run`."""
        folder.add(jobs)
        waiting = {job.id: job for job in jobs}
        lost = 0
        while True:
            before = len(waiting)
            waiting = {name: job for name, job in waiting.items() if folder.outcome(name) is None}
            if on_change is not None:
                running = tuple(job for name, job in waiting.items() if owner(folder, name) is not None)
                on_change(folder, Progress(len(jobs), len(jobs) - len(waiting), running))
            if not waiting:
                return
            lost = 0 if len(waiting) < before else lost
            gone = [process for process in self._processes if process.poll() is not None]
            for process in gone:
                self._processes.remove(process)
                lost += process.returncode != 0
                if (
                    process.returncode == HOPELESS or lost > ATTEMPTS * self.workers
                ):  # more than any runs that kill them
                    words = self._last_words(process.returncode)
                    raise ExecutorError(f"The workers cannot go on: {words}. Finished runs are kept.")
            for _ in range(min(self.workers, len(waiting)) - len(self._processes)):
                self._processes.append(self._start(folder))
            time.sleep(POLL_SECONDS)

    def _start(self, folder: StudyFolder) -> subprocess.Popen[bytes]:
        project = str(Path(__file__).resolve().parents[3])  # where `lab` lies, also when it is not installed
        paths = [project, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        # One thread a run: waiting threads spin, and two runs of two threads are many times slower than of one each.
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "lab.studies.worker", str(folder.path.resolve()), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log or subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches us alone; we ask the workers to save
        )

    def _last_words(self, code: int) -> str:
        """What a worker said before it left with this exit code."""
        if self._log is None:
            return "they ended"
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"they left with exit code {code} and no word"
