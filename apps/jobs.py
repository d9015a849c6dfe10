"""Start, pause, resume and stop training from the browser. The trainer is a process; the app only reads its folder.

A process-wide lock and a look at the living runs make "Start" safe to press twice: the same configuration that is
already being trained is shown instead of being started again.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs import Run, fresh_run_path, list_runs, resume_training, runs_root, start_training, strict

if TYPE_CHECKING:
    from lab.training import RunConfig

_starting = threading.Lock()

TINY_STEM = "first-look"


@dataclass(frozen=True)
class Started:
    """What pressing Start did: the run to look at, and whether it was started now (else it was running already)."""

    run: Run
    new: bool


class TooManyRuns(RuntimeError):
    """As many runs are being trained as this machine has cores."""

    def __init__(self, running: int, cores: int) -> None:
        self.running, self.cores = running, cores
        super().__init__(f"{running} runs are being trained on {cores} cores; stop or finish one first")


def corpora_folder() -> Path:
    """Where pasted and uploaded texts are kept: beside the runs, hidden from the list of runs."""
    return runs_root() / ".corpora"


def live_runs() -> list[Run]:
    """The runs a living process is training, queued and paused ones included."""
    return [run for run in list_runs() if run.status().active]


def start(config: RunConfig, stem: str) -> Started:
    """Start a run in a fresh folder named after `stem`, unless the very same configuration is being trained.

    Raises TooManyRuns, or OSError naming a path that cannot be written.
    """
    wanted = config.to_dict()
    with _starting:
        living = live_runs()
        for run in living:
            if _same(run.config, wanted):
                return Started(run, new=False)
        cores = os.cpu_count() or 1
        if len(living) >= cores:
            raise TooManyRuns(len(living), cores)
        return Started(start_training(config, fresh_run_path(stem)), new=True)


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


def resume(run: Run) -> Run:
    """Let a paused or stopped run go on. Raises ValueError with the reason where there is nothing to resume."""
    with _starting:
        return resume_training(run)
