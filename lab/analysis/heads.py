"""What kind of head is it? One number a head for the patterns that attention heads are known for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lab.analysis.attention import hidden
from lab.analysis.prompts import Prompt, as_array, prompt_ids, watch
from lab.analysis.results import Result, frame, grid
from model.checks import whole

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

SCORES = ("induction", "previous_token", "duplicate_token", "first_token", "entropy")
DEFAULT_PERIOD = 50


@dataclass(frozen=True, eq=False)
class HeadScores(Result):
    """Scores of every head, [layer, head]; NaN where the sequences offer no position to measure at.

    induction        mean weight on the tokens that followed earlier occurrences of the current one
    previous_token   mean weight on the token just before
    duplicate_token  mean weight on earlier occurrences of the current token
    first_token      mean weight on the first position (where a head rests that has nothing to do)
    entropy          mean entropy of the weights, nats
    chance           score name -> the same number for a head that spreads its weight evenly over what it can
                     see
    queries          score name -> how many (sequence, position) pairs it is a mean over
    tokens           [sequence, pos] what was run
    source           "synthetic" or "prompt"; period, seed: of the synthetic sequences (period 0 for a prompt)
    """

    induction: np.ndarray
    previous_token: np.ndarray
    duplicate_token: np.ndarray
    first_token: np.ndarray
    entropy: np.ndarray
    chance: dict[str, float]
    queries: dict[str, int]
    tokens: np.ndarray
    source: str
    period: int
    seed: int

    def to_frame(self) -> pandas.DataFrame:
        """A row for each head."""
        layer, head = grid(*self.induction.shape)
        return frame({"layer": layer, "head": head, **{name: getattr(self, name).ravel() for name in SCORES}})


def head_scores(
    model: GPT,
    tokens: Prompt | None = None,
    *,
    seed: int = 0,
    sequences: int = 8,
    period: int | None = None,
) -> HeadScores:
    """Score every head on repeated random tokens, or on a prompt.

    Without ``tokens``: ``sequences`` sequences of ``period`` random tokens, twice over, after the tokenizer's
    beginning-of-text token where there is one; drawn from ``seed`` without repetition inside a period where
    the vocabulary allows it. The period is 50, or what fits the context and the attention window. Text
    statistics cannot help there, so weight on the token after an earlier occurrence is induction proper.

    Scores are means over the queries for which their target exists: induction and duplicate-token need an
    earlier occurrence (induction: with a token after it that is still in the past); the others need any token
    before. With several earlier occurrences their weights add. Definitions: previous-token and induction
    heads, Elhage et al.
    2021 ("A Mathematical Framework for Transformer Circuits") and Olsson et al. 2022 ("In-context Learning
    and Induction Heads", prefix matching); duplicate-token heads, Wang et al. 2022 (arXiv 2211.00593).
    """
    if tokens is None:
        ids, period = _repeated(model, seed, sequences, period)
        source = "synthetic"
    else:
        if period is not None:
            raise ValueError("period belongs to synthetic sequences: leave it out when tokens are given.")
        ids, period, source = prompt_ids(model, tokens), 0, "prompt"

    config = model.config
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(config.n_layers)]
    _, cache = watch(model, ids, names, stop_at_layer=config.n_layers)
    targets = _targets(ids, config.attention_window)
    visible = torch.as_tensor(~hidden(ids.shape[1], config.attention_window), device=ids.device)
    even = (visible / visible.sum(-1, keepdim=True)).expand(len(ids), 1, -1, -1)  # [sequence, 1, query, key]
    chance = _scores(even, targets)
    layers = [_scores(cache[name], targets) for name in names]
    return HeadScores(
        **{name: as_array(torch.stack([scores[name] for scores in layers])) for name in SCORES},
        chance={name: float(chance[name][0]) for name in SCORES},
        queries={name: int(_measured(name, targets).sum()) for name in SCORES},
        tokens=as_array(ids),
        source=source,
        period=period,
        seed=whole(seed, "seed", 0),
    )


def _repeated(model: GPT, seed: int, sequences: int, period: int | None) -> tuple[Tensor, int]:
    """([sequence, pos] ids, period): each row a random period twice over, after a special token if any."""
    config = model.config
    seed, sequences = whole(seed, "seed", 0), whole(sequences, "sequences", 1)
    tokenizer = model.tokenizer
    first = tokenizer.bos_id if tokenizer is not None else None
    longest = (config.n_ctx - (first is not None)) // 2
    if longest < 1:  # a context of one or two tokens
        first, longest = None, config.n_ctx // 2
    if config.attention_window is not None:
        longest = min(longest, max(config.attention_window - 1, 1))
    if period is None:
        period = min(DEFAULT_PERIOD, max(longest, 1))
    elif not 1 <= (period := whole(period, "period")) <= longest:
        raise ValueError(
            f"period is {period}; twice that must fit the context of {config.n_ctx} and the attention window "
            f"({config.attention_window}): give 1 to {longest}."
        )
    size = config.d_vocab if tokenizer is None else min(config.d_vocab, tokenizer.vocab_size)
    special = {first, tokenizer.eos_id} - {None} if tokenizer is not None else set()
    pool = np.array([index for index in range(size) if index not in special] or range(size))
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.choice(pool, size=period, replace=len(pool) < period) for _ in range(sequences)])
    rows = np.concatenate([drawn, drawn], axis=1)[:, : config.n_ctx]
    if first is not None:
        rows = np.concatenate([np.full((sequences, 1), first), rows], axis=1)
    return torch.as_tensor(rows, dtype=torch.long, device=model.device), period


def _targets(ids: Tensor, window: int | None) -> dict[str, Tensor]:
    """Score name -> [sequence, query, key], True at the keys whose weight the score adds up."""
    n = ids.shape[1]
    same = ids[:, :, None] == ids[:, None, :]  # [sequence, query, key]
    seen = torch.as_tensor(~hidden(n, window), device=ids.device)
    earlier = seen & ~torch.eye(n, dtype=torch.bool, device=ids.device)
    after_same = torch.zeros_like(same)
    after_same[:, :, 1:] = same[:, :, :-1]
    previous = torch.zeros(n, n, dtype=torch.bool, device=ids.device)
    previous[torch.arange(1, n), torch.arange(n - 1)] = True
    first = torch.zeros_like(previous)
    first[1:, 0] = True
    return {
        "induction": after_same & earlier,
        "previous_token": (previous & seen).expand_as(same),
        "duplicate_token": same & earlier,
        "first_token": (first & seen).expand_as(same),
    }


def _measured(name: str, targets: dict[str, Tensor]) -> Tensor:
    """[sequence, query] where a score is taken."""
    if name != "entropy":
        return targets[name].any(-1)
    some = next(iter(targets.values()))
    later = torch.ones(some.shape[:2], dtype=torch.bool, device=some.device)
    later[:, 0] = False  # the first token has nothing but itself to look at
    return later


def _scores(pattern: Tensor, targets: dict[str, Tensor]) -> dict[str, Tensor]:
    """Score name -> [head] for a pattern [sequence, head, query, key]."""
    if pattern.dtype != torch.float64:
        pattern = pattern.float()
    scores = {}
    for name in SCORES:
        if name == "entropy":
            per_query = -torch.xlogy(pattern, pattern).sum(-1)
        else:
            per_query = (pattern * targets[name][:, None]).sum(-1)  # [sequence, head, query]
        where = _measured(name, targets)[:, None].expand_as(per_query)
        total = torch.where(where, per_query, 0.0).sum((0, 2))
        scores[name] = total / where.sum((0, 2))  # 0 / 0 is NaN: nothing to measure
    return scores
