"""residlab worker: help with a study's runs, from this machine or from any that shares the folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.studies import StudyFolder


@dataclass(frozen=True)
class Worker:
    """Take one open run after another from the studies in a folder, and train it here on one thread.

    Start as many as there are cores, on as many machines as share the folder. Ctrl-C lets the run save.
    """

    root: Path | None = None
    """A study's folder, or a folder of studies; by default studies in RESIDLAB_RUNS, or ./runs/studies."""
    once: bool = False
    """Leave when there is nothing left to do; otherwise wait until every study is complete."""


def worker(options: Worker) -> int:
    """Work until there is nothing left."""
    from lab.studies import StudyFolder, list_studies, studies_root
    from lab.studies.execute import disk_full, reason
    from lab.studies.folder import Job
    from lab.studies.worker import work

    root = options.root or studies_root()
    one = StudyFolder(root)
    if not one.registered and not root.is_dir():
        raise ValueError(f"There is no folder {root}. Begin a study first: residlab study run norm_placement")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    def folders() -> list[StudyFolder]:
        return [one] if one.registered else list_studies(root)

    for folder in folders():
        _require_corpus(folder)

    def wait() -> bool:
        return not options.once and not all(folder.complete for folder in folders())

    def said(folder: StudyFolder, job: Job) -> None:
        outcome = folder.outcome(job.id)
        print(f"{folder.path.name}  {job.run}  {outcome.state if outcome else 'done'}", flush=True)

    try:
        count = work(folders, wait=wait, on_job=said)
    except OSError as problem:
        if not disk_full(problem):
            raise
        raise ValueError(f"{reason(problem)}. Finished runs are kept; start the worker again then.") from None
    print(f"{count} {'run' if count == 1 else 'runs'} made here.")
    return 0


def _require_corpus(folder: StudyFolder) -> None:
    """Refuse to start where the study's data is not. Raises OSError with a sentence."""
    from lab.studies.execute import study_data
    from lab.training import RunConfig

    for values in folder.registration.get("configs", {}).values():
        study_data(folder, RunConfig.from_dict(values))
