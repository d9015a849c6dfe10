"""Start, resume and delete runs from outside: the trainer is a process of its own that the caller only reads.

It gets a session of its own, so closing a terminal, a browser tab or the app does not end it.
"""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from lab.runs.checkpoints import require_checkpoint
from lab.runs.folder import Run, RunNotFoundError, runs_root
from lab.runs.process import RunBusyError

# Children that were started here and not yet collected: an uncollected one would stay a zombie until we end.
_children: list[subprocess.Popen[bytes]] = []


class Configuration(Protocol):
    """What `start_training` needs of a lab.training.RunConfig."""

    def to_dict(self) -> dict[str, Any]: ...


def start_training(config: Configuration, path: str | os.PathLike[str]) -> Run:
    """Create the run folder and train it in a detached process. Returns at once; follow `run.status()`.

    What the configuration alone cannot tell (an unreadable corpus, a text too short) is checked by the
    process, which then ends in state `failed` with a sentence; `lab.training.prepare_data(config)` tells it
    beforehand.
    Raises RunExistsError where the folder already holds a run, OSError naming a path that cannot be written.
    """
    run = Run(path).create(config.to_dict())
    spawn_trainer(run)
    return run


def resume_training(path: str | os.PathLike[str] | Run) -> Run:
    """Let a run go on, from where it is: a paused one continues, an ended one gets a new process.

    A run that is being trained is left alone. Raises ValueError for one that is done or diverged, and for one whose
    checkpoints are all damaged.
    """
    run = path if isinstance(path, Run) else Run(path)
    status = run.status()
    if status.active:
        if status.state == "paused" or run.requested("pause"):
            run.request_continue()
        return run
    require_resumable(run)
    require_checkpoint(run, thorough=True)
    run.clear_requests()
    run.write_status("queued", status.step, status.max_steps, process=None)
    spawn_trainer(run)
    return run


def require_resumable(run: Run) -> None:
    """Raise ValueError with the reason when there is nothing to resume."""
    status = run.status()
    if status.state == "done":
        raise ValueError(f"{run.path} is done: it has trained its {status.max_steps} steps")
    if status.state == "diverged":
        raise ValueError(f"{run.path} cannot go on: it {status.error}. Start another run with a lower learning rate")
    require_checkpoint(run)


def spawn_trainer(run: Run) -> None:
    """A trainer for a run folder, in a process of its own that outlives this one. Raises OSError, noted in the run."""
    _children[:] = [child for child in _children if child.poll() is None]
    threads = str(run.config.get("training", {}).get("threads", 1))
    # OpenMP's waiting threads spin: two runs that each take every core are many times slower than one thread
    # each
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
    }
    project = str(Path(__file__).resolve().parents[2])  # where `lab` lies, also when it is not installed
    paths = [project, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    try:
        with (run.path / "log.txt").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "lab.training", str(run.path.resolve())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        run.write_status(
            "failed", 0, run.status().max_steps, error=f"could not start the trainer: {error}", process=None
        )
        raise
    _children.append(child)


def delete_run(run: str | os.PathLike[str] | Run, root: str | os.PathLike[str] | None = None) -> None:
    """Remove a run folder for good.

    Only a run strictly inside `root` (the runs root) with every link resolved, which nobody is training.
    Raises ValueError, RunNotFoundError or RunBusyError; nothing is touched then.
    """
    folder = run.path if isinstance(run, Run) else Path(run)
    base = (Path(root) if root is not None else runs_root()).resolve()
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link; delete what it leads to by its own name")
    target = folder.resolve()
    if target == base or not target.is_relative_to(base):
        raise ValueError(f"{folder} is not inside {base}; only runs in there are deleted")
    if not (target / "config.json").is_file():
        raise RunNotFoundError.at(folder)
    if Run(target).status().active:
        raise RunBusyError(f"{folder} is being trained; stop it before deleting it")
    with Run(target).lock():  # nobody may start on it while it goes
        doomed = target.with_name(f".deleted-{target.name}-{secrets.token_hex(4)}")
        target.rename(doomed)  # one step: the run is there, whole, or it is gone
    shutil.rmtree(doomed)
