"""Runs on a Ray cluster: each a core task of one CPU, tried again when its machine is lost. Extra: `residlab[ray]`.

The cluster's machines need the study's folder at the same path (a shared file system): what is done is told by the
folder, Ray only finds a machine. Ray Tune and Ray Train are not used.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from lab.studies.claims import owner
from lab.studies.execute import reason
from lab.studies.executors import ExecutorError, OnChange, Progress
from lab.studies.folder import Job, StudyFolder

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 30.0  # for runs to save when asked to stop
RETRIES = 3
CONNECT_SECONDS = 10.0


def _execute(folder: str, job: str) -> bool:
    """The task: do one job of a study's folder, wait for whoever holds it, and say whether it was done here."""
    from lab.studies.execute import execute

    study = StudyFolder(folder)
    if not study.registered:
        raise FileNotFoundError(f"{folder} is not on this machine; a Ray cluster needs a shared folder")
    did = execute(study, study.job(job))
    while study.outcome(job) is None:  # held by a lost machine's claim until that is stale
        time.sleep(POLL_SECONDS)
        did = execute(study, study.job(job)) or did
    return did


class RayExecutor:
    """workers: at most so many runs at once (None: as Ray sees fit). address: of a cluster; None: this machine."""

    def __init__(self, workers: int | None = None, address: str | None = None):
        try:
            import ray  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise ExecutorError("Ray is not installed: pip install 'residlab[ray]', or use --executor local.") from None
        self._ray: Any = ray
        self.workers, self.address = workers, address
        self._mine = False

    def __enter__(self) -> RayExecutor:
        ray = self._ray
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
            if self.address is None:  # a cluster of our own, also where another is running
                options |= {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
                options |= {"object_store_memory": 100 * 2**20}
            else:
                options |= {"address": self.address}
                _require_listener(self.address)
            try:
                ray.init(**options)
            except Exception as error:  # Ray raises that very class, too: a node that does not come up in time
                where = f"at {self.address}" if self.address else "on this machine"
                raise ExecutorError(f"No Ray cluster answers {where}: {_first_line(error)}") from None
            self._mine = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mine:
            self._ray.shutdown()

    def run(self, folder: StudyFolder, jobs: Sequence[Job], on_change: OnChange | None = None) -> None:
        """See `Executor.run`."""
        ray = self._ray
        folder.add(jobs)
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_execute)  # of one CPU: Ray gives it OMP_NUM_THREADS=1
        path = str(folder.path.resolve())
        queue = [job for job in jobs if folder.outcome(job.id) is None]
        limit = self.workers or len(queue)
        flying: dict[Any, Job] = {}
        try:
            while queue or flying:
                while queue and len(flying) < limit:
                    job = queue.pop(0)
                    gpus = 1 if job.config["training"]["device"] == "cuda" else 0
                    flying[task.options(num_gpus=gpus).remote(path, job.id)] = job
                ready, _ = ray.wait(list(flying), timeout=POLL_SECONDS)
                for reference in ready:
                    flying.pop(reference)
                    ray.get(reference)
                if on_change is not None:
                    waiting = [job for job in jobs if folder.outcome(job.id) is None]
                    running = tuple(job for job in waiting if owner(folder, job.id) is not None)
                    on_change(folder, Progress(len(jobs), len(jobs) - len(waiting), running))
        except KeyboardInterrupt:
            self._stop(folder, flying)
            raise
        except (ray.exceptions.RayError, ConnectionError) as error:
            raise ExecutorError(f"Ray gave up: {_reason(error)}. Finished runs are kept; run it again.") from None

    def _stop(self, folder: StudyFolder, flying: dict[Any, Job]) -> None:
        """Take back the tasks that have not begun, and let the runs in training save."""
        for reference, job in flying.items():
            if owner(folder, job.id) is None:
                with contextlib.suppress(Exception):  # the cluster may be gone: then there is nothing to take back
                    self._ray.cancel(reference, force=False)
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            running = [job for job in flying.values() if owner(folder, job.id) is not None]
            if not running:
                return
            for job in running:
                with contextlib.suppress(OSError):
                    folder.run(job).request_stop()
            time.sleep(POLL_SECONDS)


def _require_listener(address: str) -> None:
    """Refuse an address HOST:PORT at which nothing listens: Ray itself goes on asking there for minutes."""
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdigit():
        return  # "auto", or Ray's own kinds of address
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ExecutorError(f"No Ray cluster answers at {address}: {_first_line(error)}") from None


def _reason(error: BaseException) -> str:
    """What the task itself said, where it was the task that failed; else Ray's first line."""
    cause = getattr(error, "cause", None)
    return reason(cause) if isinstance(cause, OSError) else _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
