"""The raw logit lens: what the model would predict if it stopped after each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.prompts import (
    Prompt,
    as_array,
    prompt_ids,
    resolve_token,
    resolve_top_k,
    token_texts,
    vocabulary_texts,
    watch,
)
from lab.analysis.results import Result, frame, grid

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT


@dataclass(frozen=True, eq=False)
class LogitLens(Result):
    """Predictions read from the stream at each row, for every position.

    rows                name of each row: "embed", then "L0 mid" (if asked for), "L0", "L1", ...
    layer               [row] layer it follows, -1 for the embedding
    points              hook point of each row
    top_tokens          [row, pos, k] ids, the most probable first; top_texts: how they are displayed
    top_probabilities   [row, pos, k]
    final_tokens        [pos] the model's own first choice; final_texts: how it is displayed
    probability         [row, pos] that the row gives to final_tokens
    rank                [row, pos] of final_tokens in the row, 1 = first (ties share the better rank), 0 = not a number
    entropy             [row, pos] of the row's distribution, nats
    kl                  [row, pos] KL(model's own output || row), nats; the information the rest of the
                        network adds
    tokens, token_texts the prompt: ids [pos] and how they are displayed
    final_error         largest |probability| difference between the last row and the model's own output
    n_vocab             size of the vocabulary; entropy is at most its logarithm
    kind                "raw", or "tuned" when read by a ``TunedLens``
    tracked             [tracked] ids of the tokens followed through all rows; tracked_texts how they are displayed
    tracked_probability, tracked_rank   [row, pos, tracked]
    """

    rows: tuple[str, ...]
    layer: np.ndarray
    points: tuple[str, ...]
    top_tokens: np.ndarray
    top_texts: np.ndarray
    top_probabilities: np.ndarray
    final_tokens: np.ndarray
    final_texts: tuple[str, ...]
    probability: np.ndarray
    rank: np.ndarray
    entropy: np.ndarray
    kl: np.ndarray
    tokens: np.ndarray
    token_texts: tuple[str, ...]
    final_error: float
    n_vocab: int
    kind: str = "raw"
    tracked: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    tracked_texts: tuple[str, ...] = ()
    tracked_probability: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    tracked_rank: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.int64))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer and position, with its first choice."""
        row, pos = grid(*self.rank.shape)
        return frame(
            {
                "row": np.array(self.rows, dtype=object)[row],
                "layer": self.layer[row],
                "position": pos,
                "token": np.array(self.token_texts, dtype=object)[pos],
                "first_choice": self.top_texts[:, :, 0].ravel(),
                "first_probability": self.top_probabilities[:, :, 0].ravel(),
                "final_choice": np.array(self.final_texts, dtype=object)[pos],
                "probability": self.probability.ravel(),
                "rank": self.rank.ravel(),
                "entropy": self.entropy.ravel(),
                "kl": self.kl.ravel(),
            }
        )


def logit_lens(
    model: GPT,
    tokens: Prompt,
    top_k: int = 5,
    *,
    include_mid: bool = False,
    track: Sequence[int | str] | None = None,
    translate: Callable[[int, Tensor], Tensor] | None = None,
) -> LogitLens:
    """Read the stream after the embedding and after every layer through the final norm and the unembedding.

    The final norm takes its statistics afresh at every row, as the model would if it ended there, so the last
    row is the model's own output (``final_error`` says how closely). A Post-Norm model has no final norm: its
    stream is unembedded as it is. The soft cap, where there is one, applies. ``include_mid`` adds the stream
    after each attention. track: tokens, as ids or text, whose probability and rank are given in every row and
    position; by default each row's first choice at the last position. ``translate(row, stream)`` changes each row's
    stream before it is read: the tuned lens' way in (``TunedLens.read``), for rows without mid.

    This is the raw lens (nostalgebraist 2020, "interpreting GPT: the logit lens"): early rows speak a basis
    that the unembedding was not trained to read, so an early row that looks wrong may only be illegible.
    """
    config = model.config
    k = resolve_top_k(top_k, config.d_vocab)
    if include_mid and translate is not None:
        raise ValueError("A translated lens has no rows after attention: leave include_mid out.")
    ids = prompt_ids(model, tokens)
    rows = [("embed", -1, "blocks.0.hook_resid_pre")]
    for layer in range(config.n_layers):
        if include_mid:
            rows.append((f"L{layer} mid", layer, f"blocks.{layer}.hook_resid_mid"))
        rows.append((f"L{layer}", layer, f"blocks.{layer}.hook_resid_post"))
    logits, cache = watch(model, ids, [point for _, _, point in rows])

    own = _log_softmax(logits[0])  # [pos, vocab]
    final = own.argmax(-1)
    statistics: dict[str, list[np.ndarray]] = {
        name: [] for name in ("top_tokens", "top_probabilities", "probability", "rank", "entropy", "kl")
    }
    statistics |= {"tracked_probability": [], "tracked_rank": []}
    log_p = own

    def read(row: int, positions: slice = slice(None)) -> Tensor:
        stream = cache[rows[row][2]][0, positions]
        return _log_softmax(read_stream(model, stream if translate is None else translate(row, stream)))

    with torch.no_grad():
        if track is None:
            firsts = [int(read(row, slice(-1, None)).argmax()) for row in range(len(rows))]
            tracked = list(dict.fromkeys(firsts))
        else:
            tracked = [resolve_token(model, token, "track") for token in track]
        for row in range(len(rows)):
            log_p = read(row)
            of_tracked = log_p[:, tracked]  # [pos, tracked]
            statistics["tracked_probability"].append(as_array(of_tracked.exp()))
            ranks = [rank_of(log_p, of_tracked[:, [at]]) for at in range(len(tracked))]
            statistics["tracked_rank"].append(as_array(torch.stack(ranks, -1)) if ranks else np.zeros((len(log_p), 0)))
            for name, value in _statistics(log_p, own, final, k).items():
                statistics[name].append(as_array(value))
        final_error = float((log_p.exp() - own.exp()).abs().max())
    arrays: dict[str, Any] = {name: np.stack(parts) for name, parts in statistics.items()}
    return LogitLens(
        rows=tuple(name for name, _, _ in rows),
        layer=np.array([layer for _, layer, _ in rows]),
        points=tuple(point for _, _, point in rows),
        top_texts=vocabulary_texts(model, arrays["top_tokens"]),
        final_tokens=as_array(final),
        final_texts=token_texts(model, final.tolist()),
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
        final_error=final_error,
        tracked=np.array(tracked, dtype=np.int64),
        tracked_texts=token_texts(model, tracked),
        n_vocab=config.d_vocab,
        **arrays,
    )


def read_stream(model: GPT, stream: Tensor, tokens: list[int] | None = None) -> Tensor:
    """Logits [..., vocab] of a stream [..., d_model] as the end of the model would read it; fires no hook.

    tokens: only the logits of these, [..., token].
    """
    norm: Any = model.ln_final
    if model.config.norm_placement != "post":
        stream = norm.unwatched(stream)
    logits = stream @ (model.W_U if tokens is None else model.W_U[:, tokens])
    cap = model.config.logit_soft_cap
    return logits if cap is None else cap * torch.tanh(logits / cap)


def _log_softmax(logits: Tensor) -> Tensor:
    if logits.dtype not in (torch.float32, torch.float64):
        logits = logits.float()
    return logits.log_softmax(-1)


def _statistics(log_p: Tensor, own: Tensor, final: Tensor, k: int) -> dict[str, Tensor]:
    top = log_p.topk(k, dim=-1)
    of_final = log_p.gather(-1, final[:, None])  # [pos, 1]
    p, p_own = log_p.exp(), own.exp()
    return {
        "top_tokens": top.indices,
        "top_probabilities": top.values.exp(),
        "probability": of_final[:, 0].exp(),
        "rank": rank_of(log_p, of_final),
        "entropy": -torch.xlogy(p, p).sum(-1),
        # a probability that underflows to 0 contributes 0, as the limit does; NaN stays NaN
        "kl": torch.where(p_own == 0, 0.0, p_own * (own - log_p)).sum(-1).clamp_min(0),
    }


def rank_of(log_p: Tensor, value: Tensor) -> Tensor:
    """[...] how many of log_p [..., vocab] are above ``value`` [..., 1], plus 1; 0 where it is not a number."""
    return torch.where(value[..., 0].isnan(), 0, (log_p > value).sum(-1) + 1)
