"""Checkpoints: written aside, flushed to the disk, then given their name in one step, so that each one is whole."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.models import ModelFileError, load_weights, save_weights
from lab.runs import Run, step_folder, write_json
from lab.runs.checkpoints import (
    DIGESTS,
    OPTIMIZER,
    SCHEMA_VERSION,
    STATE,
    WEIGHTS,
    file_digest,
    problem,
    read_state,
    require_digest,
    signed_state,
)
from lab.runs.files import sync_directory, sync_file
from lab.training.config import RunConfig, TrainingConfig

if TYPE_CHECKING:
    from lab.training.optimizers import Optimizers
    from model import GPT

LAST_EARLY_STEP = 512
SETTINGS = "settings"
_FREE = {
    "steps", "device", "threads", "compile", "log_every", "eval_every", "eval_tokens", "checkpoint_every",
    "checkpoint_early", "optimizer_history", "sample_every", "sample_tokens", "sample_prompt", "sample_temperature",
    "dynamics",
}  # fmt: skip
"""What may change between a stop and a resume: how long and where is trained, and what is written down meanwhile."""


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


def fixed_settings(config: RunConfig) -> dict[str, dict[str, Any]]:
    """What a run that has begun keeps to its end, as plain values: its model, and how the weights are trained."""
    training = {name: value for name, value in config.training.to_dict().items() if name not in _FREE}
    return {"model": config.model.to_dict(), "training": training}


def is_scheduled(step: int, config: TrainingConfig) -> bool:
    """Whether a checkpoint is due: at the ends, every `checkpoint_every`, and early at 0, 1, 2, 4, ... 512."""
    early = config.checkpoint_early and step <= LAST_EARLY_STEP and step & (step - 1) == 0
    return early or step in (0, config.steps) or step % config.checkpoint_every == 0


def save_checkpoint(
    run: Run,
    model: GPT,
    optimizers: Optimizers | None,
    progress: Progress,
    metadata: dict[str, str],
    settings: dict[str, dict[str, Any]],
) -> Path:
    """Write checkpoint `progress.step`, in the place of one that is there already, and return its folder.

    optimizers: None keeps no optimizer state. metadata: hashes of the tokenizer and the corpus. settings:
    `fixed_settings`. Raises OSError naming the file that could not be written; no checkpoint is then half there, and
    the old one stays.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    parent = run.path / "checkpoints"
    target = parent / step_folder(progress.step)
    parent.mkdir(exist_ok=True)
    aside = parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        aside.mkdir()
        save_weights(model, aside / WEIGHTS, metadata)
        if optimizers is not None:
            tensors = {name: t.detach().cpu().contiguous() for name, t in optimizers.state_tensors().items()}
            try:
                save_file(tensors, aside / OPTIMIZER, metadata={"format": "pt"})
            except SafetensorError as error:
                raise OSError(f"could not write {aside / OPTIMIZER}: {error}") from error
        digests = {file.name: file_digest(file) for file in sorted(aside.iterdir())}
        noted = {**metadata, SETTINGS: settings, DIGESTS: digests}
        state = {"schema_version": SCHEMA_VERSION, **asdict(progress), **noted}
        write_json(aside / STATE, signed_state(state))
        for file in aside.iterdir():
            sync_file(file)
        sync_directory(aside)
        remove_checkpoint(run, progress.step)
        aside.rename(target)
        sync_directory(parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return target


def load_checkpoint(folder: Path, model: GPT, optimizers: Optimizers, step: int, last_step: int) -> Progress:
    """Put the weights and moments of `step` back; returns the progress stored with them.

    Raises ValueError (damaged or foreign files, naming the first) or OSError (one that cannot be read).
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state = read_state(folder, step, last_step)
    for name in (WEIGHTS, OPTIMIZER):
        require_digest(folder / name)
    load_weights(model, folder / WEIGHTS, cast=False)
    try:
        optimizers.load_state_tensors(load_file(folder / OPTIMIZER), complete=step > 0)
    except SafetensorError as error:
        raise ModelFileError(f"{folder / OPTIMIZER} is damaged: {error}") from error
    except ValueError as error:
        raise ModelFileError(f"{folder / OPTIMIZER}: {error}") from error
    return Progress(**{name: state[name] for name in Progress.__dataclass_fields__})


def remove_checkpoint(run: Run, step: int) -> None:
    """Delete a checkpoint; it is gone at once, even if the deletion of its files is cut short."""
    folder = run.path / "checkpoints" / step_folder(step)
    doomed = folder.with_name(f".gone.{folder.name}.{os.getpid()}.tmp")
    if folder.exists():
        folder.rename(doomed)
        shutil.rmtree(doomed)


def clean_up(run: Run) -> None:
    """Remove what a killed process left half-written, and give a checkpoint that was whole its name.

    Only for whoever holds the run's lock.
    """
    parent = run.path / "checkpoints"
    for leftover in parent.glob(".step_*.tmp"):
        name = leftover.name.split(".")[1]
        step = name.removeprefix("step_")
        if step.isdecimal() and not (parent / name).exists() and problem(leftover, int(step), int(step)) is None:
            leftover.rename(parent / name)
    for leftover in parent.glob(".*step_*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in run.path.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def thin_out(run: Run, progress: Progress, config: TrainingConfig) -> None:
    """Keep disk use down: the newest few keep their optimizer state, and an unscheduled one goes unless it is best.

    Only what the whole checkpoint of `progress.step` replaces: later ones, of before a resume, stay until their turn.
    """
    folders = {s: run.path / "checkpoints" / step_folder(s) for s in reversed(run.checkpoints()) if s <= progress.step}
    for step in folders:
        if step not in (progress.best_step, progress.step) and not is_scheduled(step, config):
            remove_checkpoint(run, step)
    states = [folder / OPTIMIZER for folder in folders.values() if (folder / OPTIMIZER).is_file()]
    for state in states[config.optimizer_history :] if config.optimizer_history else ():
        state.unlink(missing_ok=True)
