"""Whether a training fits into this machine's memory, told before it starts. No torch here."""

from __future__ import annotations

import shutil
import warnings

from lab.training.config import RunConfig
from model.accounting import count_parameters, flops_per_token, format_bytes, format_count, format_flops, memory


def plan(config: RunConfig) -> str:
    """What a training is about to take, in a sentence: parameters, tokens, arithmetic, memory. d_vocab is known."""
    training, model = config.training, config.model
    tokens = training.steps * training.batch_size * model.n_ctx
    need = memory(model, training.batch_size, optimizer=training.optimizer)
    return (
        f"{format_count(count_parameters(model).total)} parameters, {training.steps:,} steps, "
        f"{format_count(tokens)} tokens, {format_flops(tokens * flops_per_token(model))}, about "
        f"{format_bytes(need.training)} of memory"
    )


def require_memory(config: RunConfig, *, processes: int = 1, total: int | None = None) -> None:
    """Raise ValueError where weights, gradients and moments alone are more than the machine has; warn where a whole
    step is more than is free. `total`: bytes of memory, by default this machine's. On a GPU nothing is checked.
    """
    import psutil

    training = config.training
    if training.device == "cuda" or (training.device == "auto" and shutil.which("nvidia-smi")):
        return
    need = memory(config.model, max(1, training.batch_size // processes), optimizer=training.optimizer)
    kept = need.weights + need.gradients + need.optimizer
    machine = psutil.virtual_memory()
    here = machine.total if total is None else total
    parameters = format_count(count_parameters(config.model).total)
    if kept > here:
        raise ValueError(
            f"to train {parameters} parameters takes {format_bytes(kept)} of memory for weights, gradients and the "
            f"optimizer alone; this machine has {format_bytes(here)}. Take a smaller model"
        )
    if need.training > min(machine.available, here):
        warnings.warn(
            f"To train {parameters} parameters takes about {format_bytes(need.training)} of memory a step; "
            f"{format_bytes(min(machine.available, here))} are free. Take a smaller batch_size, n_ctx or model.",
            stacklevel=2,
        )
