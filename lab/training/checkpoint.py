"""Checkpoints: written aside, flushed to the disk, then given their name in one step, so that each one is whole."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.models import ModelFileError, load_weights, save_weights
from lab.runs import Run, read_json, step_folder, write_json
from lab.runs.files import sync_directory, sync_file
from lab.training.config import TrainingConfig

if TYPE_CHECKING:
    from lab.training.optimizers import Optimizers
    from model import GPT

LAST_EARLY_STEP = 512
OPTIMIZER = "optimizer.safetensors"


@dataclass
class Progress:
    """Everything of a run in progress that is neither a weight nor an optimizer moment; a checkpoint's
    state.json.

    losses and clipped belong to the steps since the last line of metrics; seconds is training alone,
    wall_seconds all of it; first_loss and exploded serve the detection of divergence.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    wall_seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    clipped: int = 0
    grad_norm: float | None = None
    first_loss: float | None = None
    exploded: int = 0
    best_step: int | None = None
    best_loss: float | None = None


def is_scheduled(step: int, config: TrainingConfig) -> bool:
    """Whether a checkpoint is due: at the ends, every `checkpoint_every`, and early at 0, 1, 2, 4, ... 512."""
    early = config.checkpoint_early and step <= LAST_EARLY_STEP and step & (step - 1) == 0
    return early or step in (0, config.steps) or step % config.checkpoint_every == 0


def save_checkpoint(run: Run, model: GPT, optimizers: Optimizers, progress: Progress, metadata: dict[str, str]) -> Path:
    """Write checkpoint `progress.step` and return its folder; one that is there already is left as it is.

    metadata: hashes of the tokenizer and the corpus. Raises OSError naming the file that could not be
    written; no checkpoint is then half there.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    parent = run.path / "checkpoints"
    target = parent / step_folder(progress.step)
    if target.exists():
        return target
    parent.mkdir(exist_ok=True)
    aside = parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        aside.mkdir()
        save_weights(model, aside / "model.safetensors", metadata)
        tensors = {name: t.detach().cpu().contiguous() for name, t in optimizers.state_tensors().items()}
        try:
            save_file(tensors, aside / OPTIMIZER, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"could not write {aside / OPTIMIZER}: {error}") from error
        write_json(aside / "state.json", {"schema_version": 1, **asdict(progress), **metadata})
        for file in aside.iterdir():
            sync_file(file)
        sync_directory(aside)
        aside.rename(target)
        sync_directory(parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return target


def load_checkpoint(folder: Path, model: GPT, optimizers: Optimizers) -> tuple[Progress, dict[str, Any]]:
    """Put weights and moments back; returns the progress and the hashes stored with it.

    Raises ModelFileError (damaged or foreign files) or FileNotFoundError (no optimizer state).
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state = read_json(folder / "state.json")
    load_weights(model, folder / "model.safetensors")
    try:
        optimizers.load_state_tensors(load_file(folder / OPTIMIZER))
    except SafetensorError as error:
        raise ModelFileError(f"{folder / OPTIMIZER} is damaged: {error}") from error
    names = Progress.__dataclass_fields__
    return Progress(**{k: v for k, v in state.items() if k in names}), {
        k: v for k, v in state.items() if k not in names
    }


def resumable_steps(run: Run) -> list[int]:
    """Steps whose checkpoints hold the optimizer's state, newest first."""
    folder = run.path / "checkpoints"
    return [s for s in reversed(run.checkpoints()) if (folder / step_folder(s) / OPTIMIZER).is_file()]


def remove_checkpoint(run: Run, step: int) -> None:
    """Delete a checkpoint; it is gone at once, even if the deletion of its files is cut short."""
    folder = run.path / "checkpoints" / step_folder(step)
    doomed = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    if folder.exists():
        folder.rename(doomed)
        shutil.rmtree(doomed)


def clean_up(run: Run) -> None:
    """Remove what a killed process left half-written. Only for whoever holds the run's lock."""
    for leftover in (run.path / "checkpoints").glob(".step_*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in run.path.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def thin_out(run: Run, progress: Progress, config: TrainingConfig) -> None:
    """Keep disk use down: the newest few keep their optimizer state, and an unscheduled one goes unless it is best."""
    keep = config.optimizer_history
    steps = run.checkpoints()
    for step in steps:
        if step not in (progress.best_step, progress.step) and not is_scheduled(step, config):
            remove_checkpoint(run, step)
    if keep:
        for step in resumable_steps(run)[keep:]:
            (run.path / "checkpoints" / step_folder(step) / OPTIMIZER).unlink(missing_ok=True)
