"""Start, queue, pause, resume and stop training from the browser. Trainers are processes; the app reads their folders.

A process-wide lock and a look at the living runs make "Start" safe to press twice: the same configuration that is
already being trained is shown instead of being started again. What finds no room waits in `lab.runs.queue`.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs import Run, fresh_run_path, list_statuses, queue, resume_training, runs_root, start_training, strict
from lab.runs.launch import require_resumable
from lab.training.footprint import require_memory

if TYPE_CHECKING:
    from lab.training import RunConfig

_starting = threading.Lock()

TINY_STEM = "first-look"


@dataclass(frozen=True)
class Started:
    """What pressing Start did.

    run: the one to look at. new: it was made now, else it was there already. waits: in the queue, for its turn.
    """

    run: Run
    new: bool
    waits: bool = False


def corpora_folder() -> Path:
    """Where pasted and uploaded texts are kept: beside the runs, hidden from the list of runs."""
    return runs_root() / ".corpora"


def wake_queue() -> None:
    """Go on with runs that wait and that nobody starts any more: the machine went down, or a process was killed."""
    with contextlib.suppress(OSError):  # a folder that cannot be written; starting a run says so where it is read
        queue.ensure_dispatcher()


def live_runs() -> list[Run]:
    """The runs a living process is training, queued and paused ones included."""
    return [run for run, status in list_statuses() if status.active]


def start(config: RunConfig, stem: str) -> Started:
    """Train `config` in a fresh folder named after `stem`, now or when its turn comes.

    The very same configuration that is being trained, or waits for it, is not started again. Raises OSError naming a
    path that cannot be written, ValueError for a model that this machine's memory cannot hold.
    """
    require_memory(config)
    wanted = config.to_dict()
    with _starting:
        queue.ensure_dispatcher()
        waiting = queue.waiting_runs()
        for run in dict.fromkeys([*live_runs(), *waiting]):
            if _same(run.config, wanted):
                return Started(run, new=False, waits=run in waiting)
        path = fresh_run_path(stem)
        if queue.has_room(config.training.threads):
            return Started(start_training(config, path), new=True)
        run = Run(path).create(wanted)
        queue.enqueue(run)
        return Started(run, new=True, waits=True)


def _same(kept: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a run's config.json came from this configuration.

    The trainer fills in what only the data and the hardware tell: the vocabulary, and what was left at `auto`.
    """
    wanted = strict(wanted)
    for part in ("model", "data", "training"):
        for name, value in wanted[part].items():
            if name != "d_vocab" and value != "auto" and kept.get(part, {}).get(name) != value:
                return False
    return True


def start_tiny() -> Started:
    """Train a model to look at in under a minute: two small layers on the built-in stories, character by character."""
    return start(tiny_config(), TINY_STEM)


def tiny_config() -> RunConfig:
    """The configuration of the model that a first visit trains."""
    from lab.training import build_run_config

    return build_run_config(
        "stories",
        "nano",
        "fast",
        steps=300,
        seed=0,
        model_overrides={"n_layers": 2, "d_model": 64, "n_heads": 4, "n_ctx": 64},
        training_overrides={"eval_every": 50, "sample_every": 100, "checkpoint_every": 100},
    )


def resume(run: Run) -> Started:
    """Let a paused or stopped run go on, now or when its turn comes. Raises ValueError where it cannot."""
    with _starting:
        if run in queue.waiting_runs():
            if run.status().state != "paused":
                run.request_continue()  # it was held in the queue
            queue.ensure_dispatcher()
            return Started(run, new=False, waits=True)
        status = run.status()
        if not status.active:
            require_resumable(run)
        elif status.state != "paused":
            return Started(resume_training(run), new=False)  # asked to pause, but not there yet
        if queue.has_room(queue.threads_of(run)):
            return Started(resume_training(run), new=False)
        queue.enqueue(run)
        return Started(run, new=False, waits=True)


def stop(run: Run) -> None:
    """Ask for a run to save and end, or to leave the queue."""
    run.request_stop()
    queue.ensure_dispatcher()  # which hears it for a run that waits
