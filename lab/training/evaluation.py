"""Validation loss of a whole split: every token scored once, the same windows every time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.training.data import TrainingData, evaluation_windows

if TYPE_CHECKING:
    import torch

    from model import GPT

EVALUATION_TOKENS = 4096  # a forward pass, so that memory does not grow with the split


@dataclass(frozen=True)
class Evaluation:
    """loss in nats per token, over `tokens` tokens; bpb in bits per byte of text (None where the corpus is not text).

    Of a task, whose tokens are partly drawn at random: task_loss (nats) and accuracy (of the likeliest token) over the
    tokens that follow from those before them. None for text.
    """

    loss: float
    bpb: float | None
    tokens: int
    task_loss: float | None = None
    accuracy: float | None = None


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every module is in the mode it was in before."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def token_losses(model: GPT, ids: np.ndarray, *, hits: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(loss in nats, whether the likeliest token was the right one) of every token but the first: two [token - 1].

    In the weights' own precision; draws no random numbers. Without `hits` the second array is empty.
    """
    import torch

    n_ctx = model.config.n_ctx
    losses = np.empty(max(0, len(ids) - 1))  # filled in place: a long split's losses are not held twice
    right = np.zeros(len(losses) if hits else 0, bool)
    done = 0
    with evaluating(model):
        for windows in evaluation_windows(ids, n_ctx, max(1, EVALUATION_TOKENS // n_ctx)):
            tokens = torch.from_numpy(windows).to(model.device)
            inputs, targets = tokens[:, :-1], tokens[:, 1:]
            if hits:
                logits, loss = model(inputs, return_type="both", targets=targets, loss_per_token=True)
                right[done : done + targets.numel()] = (logits.argmax(-1) == targets).flatten().cpu().numpy()
            else:
                loss = model(inputs, return_type="loss", targets=targets, loss_per_token=True)
            losses[done : done + targets.numel()] = loss.double().flatten().cpu().numpy()
            done += targets.numel()
    return losses, right


def evaluate(model: GPT, data: TrainingData, most: int | None = None) -> Evaluation:
    """The validation loss of `model`, whatever else there is to say about this corpus.

    Over the whole split, or over its first `most` tokens where it is longer: a tenth of a large text would take longer
    to score than many steps of training. Bits per byte are then those of the split's mean number of bytes per token.
    """
    mask = data.corpus.loss_mask("validation")
    ids = data.validation if most is None else data.validation[: most + 1]
    losses, right = token_losses(model, ids, hits=mask is not None)
    total, count = float(losses.sum()), len(losses)
    scored = None if data.validation_bytes is None else data.validation_bytes * count / (len(data.validation) - 1)
    bpb = total / (math.log(2) * scored) if scored else None
    if mask is None or not mask[1 : count + 1].any():
        return Evaluation(total / count, bpb, count)
    follows = mask[1 : count + 1]
    return Evaluation(total / count, bpb, count, float(losses[follows].mean()), float(right[follows].mean()))
