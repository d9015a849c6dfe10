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
    """loss in nats per token; bpb in bits per byte of text (None where the corpus is not text); tokens scored."""

    loss: float
    bpb: float | None
    tokens: int


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


def split_loss(model: GPT, ids: np.ndarray) -> tuple[float, int]:
    """(mean loss in nats per token, tokens scored) over all of `ids` [token], in the weights' own precision.

    Draws no random numbers. Sums in fp64, so the result does not depend on how windows are grouped.
    """
    import torch

    n_ctx = model.config.n_ctx
    total, count = 0.0, 0
    with evaluating(model):
        for windows in evaluation_windows(ids, n_ctx, max(1, EVALUATION_TOKENS // n_ctx)):
            tokens = torch.from_numpy(windows).to(model.device)
            loss = model(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:], loss_per_token=True)
            total += loss.double().sum().item()
            count += loss.numel()
    return total / count, count


def evaluate(model: GPT, data: TrainingData) -> Evaluation:
    """The validation loss of `model`, in nats per token and, for text, in bits per byte."""
    loss, tokens = split_loss(model, data.validation)
    bpb = None
    if data.validation_bytes:
        bpb = loss * tokens / (math.log(2) * data.validation_bytes)
    return Evaluation(loss, bpb, tokens)
