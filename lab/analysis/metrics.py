"""What a patch is judged by: one number read from the logits of a prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lab.analysis.lens import read_stream
from lab.analysis.prompts import resolve_position, resolve_token, token_name

if TYPE_CHECKING:
    from model.gpt import GPT

Metric = Any
"""A ``LogitDifference``, ``Logit`` or ``LogProbability``, or any function of logits [pos, vocab] that returns one
number (a tensor of no dimensions, to be differentiated in attribution patching)."""


@dataclass(frozen=True)
class LogitDifference:
    """logit(answer) - logit(wrong) at a position; tokens as text or ids. The usual choice: what both answers share
    (being a name at all, say) cancels."""

    answer: int | str
    wrong: int | str
    position: int = -1


@dataclass(frozen=True)
class Logit:
    """The logit of the answer at a position."""

    answer: int | str
    position: int = -1


@dataclass(frozen=True)
class LogProbability:
    """log p(answer) at a position, nats. It needs the logits of the whole vocabulary, so it costs more."""

    answer: int | str
    position: int = -1


@dataclass(frozen=True)
class Reading:
    """A metric made ready for one model and one length of prompt.

    name   in words
    last   the last position it reads: nothing after it matters to a causal model
    whole  whether it needs the stream of every position, not of ``last`` alone
    """

    name: str
    last: int
    whole: bool
    _read: Callable[[Tensor], Tensor]

    def __call__(self, stream: Tensor) -> Tensor:
        """Values [row] for final streams [row, pos, d_model] that end at position ``last``."""
        return self._read(stream)


def read_metric(model: GPT, metric: Metric, length: int) -> Reading:
    """Check a metric against a model and a prompt. ValueError for an answer that is not one token, a position
    outside the prompt, or something that is no metric."""
    if isinstance(metric, (LogitDifference, Logit, LogProbability)):
        return _of_tokens(model, metric, length)
    if not callable(metric):
        raise ValueError(
            f"The metric is {metric!r}: give LogitDifference, Logit, LogProbability or a function of logits."
        )

    def read(stream: Tensor) -> Tensor:
        return torch.stack([one_number(metric(read_stream(model, row))) for row in stream])

    name = getattr(metric, "__name__", type(metric).__name__)
    return Reading("a function of the logits" if name == "<lambda>" else name, length - 1, True, read)


def _of_tokens(model: GPT, metric: LogitDifference | Logit | LogProbability, length: int) -> Reading:
    at = resolve_position(metric.position, length)
    answer = resolve_token(model, metric.answer, "answer")
    said = token_name(model, answer)
    if isinstance(metric, LogProbability):
        return Reading(
            f"log p of “{said}”",
            at,
            False,
            lambda stream: _wide(read_stream(model, stream[:, -1])).log_softmax(-1)[:, answer],
        )
    tokens, name = [answer], f"logit of “{said}”"
    if isinstance(metric, LogitDifference):
        tokens.append(resolve_token(model, metric.wrong, "wrong"))
        if tokens[0] == tokens[1]:
            raise ValueError(f"answer and wrong are the same token, “{said}”: their difference is always 0.")
        name = f"logit of “{said}” less that of “{token_name(model, tokens[1])}”"

    def read(stream: Tensor) -> Tensor:
        logits = read_stream(model, stream[:, -1], tokens)
        return logits[:, 0] - logits[:, 1] if len(tokens) == 2 else logits[:, 0]

    return Reading(name, at, False, read)


def one_number(value: Any) -> Tensor:
    """A metric's value as a tensor of no dimensions; ValueError when it is several."""
    value = torch.as_tensor(value)
    if value.numel() != 1:
        raise ValueError(
            f"The metric returned {list(value.shape)} numbers for one prompt; it must return one: index a position and "
            "a token, or take a mean."
        )
    return value.reshape(())


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
