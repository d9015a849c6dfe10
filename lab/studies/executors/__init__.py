"""Where the runs of a study are made. An executor gets jobs done; what is done is told by the folder alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from lab.studies.folder import Job, StudyFolder


class ExecutorError(RuntimeError):
    """The runs cannot go on (a full disk, a cluster that is gone). What is finished is kept; the sentence says why."""


@dataclass(frozen=True)
class Progress:
    """How far a set of jobs is: `done` of `total`, and the jobs that are being trained now."""

    total: int
    done: int
    running: tuple[Job, ...]


OnChange = Callable[[StudyFolder, Progress], None]


class Executor(Protocol):
    """Gets jobs done. A context manager, so that workers stay warm between the stages of a study."""

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def run(self, folder: StudyFolder, jobs: Sequence[Job], on_change: OnChange | None = None) -> None:
        """Return when every job has an outcome (diverged and failed are outcomes). Interrupted by Ctrl-C the runs save
        and the exception goes on. Raises ExecutorError."""
        ...


def make_executor(name: str, *, workers: int | None = None, address: str | None = None) -> Executor:
    """The executor called `local` or `ray`. Raises ValueError for another name, ExecutorError without Ray."""
    if name == "local":
        from lab.studies.executors.local import LocalExecutor

        return LocalExecutor(workers)
    if name == "ray":
        from lab.studies.executors.ray import RayExecutor

        return RayExecutor(workers, address)
    raise ValueError(f'There is no executor "{name}"; known are local and ray.')
