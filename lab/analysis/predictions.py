"""What the model expects at each position of a prompt, and how surprised it is by what comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lab.analysis.lens import rank_of
from lab.analysis.prompts import (
    Prompt,
    as_array,
    prompt_ids,
    resolve_top_k,
    token_texts,
    vocabulary_texts,
    without_dropout,
)
from lab.analysis.results import Result, frame

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT


@dataclass(frozen=True, eq=False)
class TokenPredictions(Result):
    """Next-token distributions along a prompt.

    tokens, token_texts   the prompt: ids [pos] and how they are displayed
    probability   [pos] given to each token by what precedes it; NaN for the first, which nothing predicts
    surprisal     [pos] -log probability, nats; NaN for the first
    rank          [pos] of each token among all, 1 = first; 0 for the first token of the prompt
    entropy       [pos] of the prediction made AT each position, for the token after it, nats
    top_tokens, top_texts, top_probabilities   [pos, k] predicted AT each position for the token after it
    """

    tokens: np.ndarray
    token_texts: tuple[str, ...]
    probability: np.ndarray
    surprisal: np.ndarray
    rank: np.ndarray
    entropy: np.ndarray
    top_tokens: np.ndarray
    top_texts: np.ndarray
    top_probabilities: np.ndarray

    @property
    def loss(self) -> float:
        """Mean surprisal of the tokens after the first, nats. ValueError for a prompt of one token."""
        if len(self.tokens) < 2:
            raise ValueError("A loss needs 2 tokens: this prompt has 1, and nothing predicts the first.")
        return float(np.mean(self.surprisal[1:], dtype=np.float64))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each position."""
        return frame(
            {
                "position": np.arange(len(self.tokens)),
                "token": np.array(self.token_texts, dtype=object),
                "id": self.tokens,
                "probability": self.probability,
                "surprisal": self.surprisal,
                "rank": self.rank,
                "entropy": self.entropy,
                "next_first_choice": self.top_texts[:, 0],
                "next_first_probability": self.top_probabilities[:, 0],
            }
        )


def token_predictions(model: GPT, tokens: Prompt, top_k: int = 5) -> TokenPredictions:
    """Probability, rank and surprisal of each token of a prompt, and the likeliest next tokens everywhere."""
    k = resolve_top_k(top_k, model.config.d_vocab)
    ids = prompt_ids(model, tokens)
    with torch.no_grad(), without_dropout(model):
        logits = model(ids)[0]
        if logits.dtype not in (torch.float32, torch.float64):
            logits = logits.float()
        log_p = logits.log_softmax(-1)  # [pos, vocab]
        top = log_p.topk(k, dim=-1)
        of_next = log_p[:-1].gather(-1, ids[0, 1:, None])  # [pos - 1, 1]
        rank = rank_of(log_p[:-1], of_next)
        p = log_p.exp()
        entropy = -torch.xlogy(p, p).sum(-1)
    surprisal = np.concatenate([[np.nan], -as_array(of_next[:, 0])]).astype(as_array(log_p[:0]).dtype)
    top_tokens = as_array(top.indices)
    return TokenPredictions(
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
        probability=np.exp(-surprisal),
        surprisal=surprisal,
        rank=np.concatenate([[0], as_array(rank)]),
        entropy=as_array(entropy),
        top_tokens=top_tokens,
        top_texts=vocabulary_texts(model, top_tokens),
        top_probabilities=as_array(top.values.exp()),
    )
