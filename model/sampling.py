"""From logits to a distribution: the settings of sampling and its filters, pure functions on [batch, vocab].

Needs no torch at import: the filters use the methods of the tensors they are given, so a command line or a form can
check its settings without waiting for it. Each filter keeps what transformers' processor of the same purpose keeps,
except that ties go to the lowest id, and they are applied in transformers' order: repetition penalty, temperature,
top-k, top-p, min-p.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from model.checks import as_whole, plain, short

if TYPE_CHECKING:
    from torch import Tensor

Problem = tuple[str, str]
"""(field, sentence that states the value and the fix)."""


class SamplingError(ValueError):
    """Settings nothing can be sampled with. ``problems`` lists every (field, sentence), ``fields`` the fields."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        self.fields = tuple(field for field, _ in problems)
        super().__init__(" ".join(sentence for _, sentence in problems))


@dataclass(frozen=True)
class SamplingConfig:
    """How the next token is drawn from the logits. Refuses impossible settings with a ``SamplingError``.

    temperature: divides the logits; 0 takes the likeliest token, the lowest id of several. top_k: only the k
    likeliest, exactly k of them (the lowest ids of a tie); more than the vocabulary has is the whole vocabulary.
    top_p: only the likeliest tokens that together reach probability p (Holtzman et al. 2020, arXiv 1904.09751).
    min_p: only tokens at least min_p times as probable as the likeliest (Nguyen et al. 2024, arXiv 2407.01082).
    repetition_penalty: positive logits of tokens already there are divided by it, negative ones multiplied
    (Keskar et al. 2019, arXiv 1909.05858). None, or 1 for the penalty, turns a filter off.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, plain(value))
        problems = SamplingConfig.problems(vars(self))
        if problems:
            raise SamplingError(problems)
        object.__setattr__(self, "top_k", None if self.top_k is None else as_whole(self.top_k))

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @staticmethod
    def problems(values: dict[str, Any]) -> list[Problem]:
        """Everything wrong with these field values at once, for a form; empty when they can be used."""
        found = [(n, f"Unknown sampling field {n!r}.") for n in values if n not in _FIELDS]
        for name, (fine, wanted) in _RULES.items():
            value = values.get(name, _FIELDS[name])
            if not fine(value):
                found.append((name, f"{name} is {short(value)}; it must be {wanted}."))
        return found


_FIELDS = {field.name: field.default for field in dataclasses.fields(SamplingConfig)}


def _number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


_RULES = {
    "temperature": (
        lambda t: _number(t) and t >= 0,
        "0 (always the likeliest token) or a finite number above it",
    ),
    "top_k": (
        lambda k: k is None or (as_whole(k) is not None and k >= 1),
        "a whole number of at least 1, or None for no limit",
    ),
    "top_p": (
        lambda p: p is None or (_number(p) and 0 < p <= 1),
        "above 0 and at most 1, or None for no limit (temperature 0 keeps one token)",
    ),
    "min_p": (
        lambda p: p is None or (_number(p) and 0 <= p <= 1),
        "between 0 and 1, or None for no limit",
    ),
    "repetition_penalty": (
        lambda r: _number(r) and r > 0,
        "a finite number above 0 (1: no penalty, above 1: fewer repetitions)",
    ),
}


def filtered_logits(logits: Tensor, settings: SamplingConfig, seen: Tensor | None = None) -> Tensor:
    """All filters in order on logits [batch, vocab]; what must not be drawn is -inf.

    seen: [batch, vocab], true for tokens already in a row; the repetition penalty needs it. Temperature 0 leaves
    only the likeliest token.
    """
    if settings.repetition_penalty != 1:
        if seen is None:
            raise ValueError("The repetition penalty needs to know which tokens were seen.")
        logits = apply_repetition_penalty(logits, seen, settings.repetition_penalty)
    if settings.is_greedy:
        return apply_top_k(logits, 1)
    if settings.temperature != 1:
        logits = apply_temperature(logits, settings.temperature)
    if settings.top_k is not None:
        logits = apply_top_k(logits, settings.top_k)
    if settings.top_p is not None:
        logits = apply_top_p(logits, settings.top_p)
    if settings.min_p is not None:
        logits = apply_min_p(logits, settings.min_p)
    return logits


def seen_tokens(tokens: Tensor, d_vocab: int, mask: Tensor | None = None) -> Tensor:
    """[batch, vocab], true where a token occurs in its row of tokens [batch, pos]; masked (0) positions do not."""
    seen = tokens.new_zeros(tokens.shape[0], d_vocab).bool()
    occurs = tokens.new_ones(tokens.shape).bool() if mask is None else mask.bool()
    # a scatter of true and false into one cell has no defined winner: a masked position points at a seen token
    if mask is not None:
        tokens = tokens.where(occurs, tokens[:, -1:])
    return seen.scatter_(1, tokens, True)


VAST = 1e30
"""Beyond any logit, and far enough from the largest fp32 that a further factor of 1e3 does not overflow."""


def apply_repetition_penalty(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Positive logits of seen tokens divided by the penalty, negative ones multiplied, each once.

    What that makes larger than ``VAST`` is ``VAST``, so that no penalty makes an infinite logit.
    """
    penalty = min(max(penalty, 1 / VAST), VAST)
    most = logits.new_tensor(VAST).nan_to_num()  # in half precision its largest number
    changed = (logits * penalty).where(logits < 0, logits / penalty).clamp(-most, most)
    return logits.where(~seen | logits.isinf(), changed)


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Logits over temperature; shifted so that the largest is 0 where the quotient might overflow."""
    if temperature < 1e-3:
        logits = logits - logits.amax(-1, keepdim=True)
    # beyond these fp32 would read the temperature as 0 or infinite; the distribution is at its limit already
    return logits / min(max(temperature, 1 / VAST), VAST)


def apply_top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest. Of several equal to the k-th, the lowest ids are kept: [2, 2, 1, 0] with k 1 keeps id 0."""
    if k >= logits.shape[-1]:
        return logits
    if k == 1:
        first = logits.argmax(-1, keepdim=True)  # documented to be the first of several
        return logits.new_full(logits.shape, -math.inf).scatter(-1, first, logits.gather(-1, first))
    kth = logits.topk(k).values[..., -1:]
    above, tied = logits > kth, logits == kth
    room = k - above.sum(-1, keepdim=True)
    return logits.masked_fill(~(above | (tied & (tied.cumsum(-1) <= room))), -math.inf)


def apply_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest likeliest tokens whose probabilities reach p together; of equal ones the lowest ids."""
    # Probabilities 0.5, 0.3, 0.15, 0.05 and p 0.9, from the least likely up:
    #     sorted   0.05  0.15  0.3   0.5
    #     summed   0.05  0.2   0.5   1.0
    # A token goes while the sum up to it is at most 1 - p = 0.1, for then those above it hold p or more: 0.05 goes;
    # 0.15 stays, without it the rest would hold 0.8 only. The likeliest stays whatever p is.
    if p >= 1:
        return logits
    # Flipped, a stable sort puts the higher of two equal ids first, so that it goes first.
    ascending, order = logits.flip(-1).sort(dim=-1, stable=True)
    goes = ascending.softmax(-1).cumsum(-1) <= 1 - p
    goes[..., -1] = False
    return logits.masked_fill(goes.scatter(-1, order, goes).flip(-1), -math.inf)


def apply_min_p(logits: Tensor, min_p: float) -> Tensor:
    """Keep tokens with at least min_p of the likeliest token's probability."""
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < min_p * probabilities.amax(-1, keepdim=True), -math.inf)
