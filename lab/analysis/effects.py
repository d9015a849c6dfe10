"""What interventions do to a prompt: predictions before and after, and how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab.analysis.interventions import Intervention, apply, describe
from lab.analysis.prompts import (
    Prompt,
    as_array,
    prompt_ids,
    resolve_position,
    resolve_token,
    token_texts,
    vocabulary_texts,
    without_dropout,
)
from lab.analysis.results import Result, frame

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT


@dataclass(frozen=True, eq=False)
class InterventionEffect(Result):
    """Predictions without and with interventions, at every position of a prompt.

    logits_before, logits_after   [pos, vocab]
    loss_before, loss_after       [pos] of the token that follows, nats; NaN at the last position
    kl                            [pos] KL(before || after), nats
    top_before, top_after         [pos] id of the first choice; *_texts how it is displayed
    p_before, p_after             [pos] probability of the first choice *before*, without and with
    interventions                 a few words on each
    tokens, token_texts           the prompt: ids [pos] and how they are displayed
    """

    logits_before: np.ndarray
    logits_after: np.ndarray
    loss_before: np.ndarray
    loss_after: np.ndarray
    kl: np.ndarray
    top_before: np.ndarray
    top_after: np.ndarray
    top_before_texts: np.ndarray
    top_after_texts: np.ndarray
    p_before: np.ndarray
    p_after: np.ndarray
    interventions: tuple[str, ...]
    tokens: np.ndarray
    token_texts: tuple[str, ...]

    @property
    def logit_difference(self) -> np.ndarray:
        """[pos, vocab] after less before."""
        return self.logits_after - self.logits_before

    @property
    def loss_difference(self) -> np.ndarray:
        """[pos] after less before, nats; NaN at the last position."""
        return self.loss_after - self.loss_before

    def to_dict(self) -> dict[str, Any]:
        """As every result's, without the two arrays of logits over the whole vocabulary."""
        return {name: value for name, value in super().to_dict().items() if not name.startswith("logits_")}

    def to_frame(self) -> pandas.DataFrame:
        """A row for each position."""
        return frame(
            {
                "position": np.arange(len(self.tokens)),
                "token": np.array(self.token_texts, dtype=object),
                "kl": self.kl,
                "loss_before": self.loss_before,
                "loss_after": self.loss_after,
                "first_choice_before": self.top_before_texts,
                "first_choice_after": self.top_after_texts,
                "probability_before": self.p_before,
                "probability_after": self.p_after,
            }
        )

    def probability(self, model: GPT, token: int | str, position: int = -1) -> tuple[float, float]:
        """(before, after) probability of one token at a position."""
        at = resolve_position(position, len(self.tokens))
        index = resolve_token(model, token)

        def of(logits: np.ndarray) -> float:
            return float(torch.as_tensor(logits[at]).double().softmax(-1)[index])

        return of(self.logits_before), of(self.logits_after)


def intervention_effect(
    model: GPT, tokens: Prompt, interventions: Intervention | Sequence[Intervention]
) -> InterventionEffect:
    """Run a prompt without and with interventions and compare what the model predicts.

    A large effect says that the prediction depends on what was changed; a small one does not say that it does not:
    later layers often make up for what is missing (Wang et al. 2022; McGrath et al. 2023, arXiv 2307.15771).
    """
    ids = prompt_ids(model, tokens)
    with torch.no_grad(), without_dropout(model):
        before = model(ids)[0]
        with apply(model, interventions):
            after = model(ids)[0]
    log_before, log_after = (x.log_softmax(-1) for x in (_wide(before), _wide(after)))
    p_before = log_before.exp()
    first = log_before.argmax(-1)
    kl = torch.where(p_before == 0, 0.0, p_before * (log_before - log_after)).sum(-1).clamp_min(0)
    top_before, top_after = as_array(first), as_array(log_after.argmax(-1))

    def loss(log_p: torch.Tensor) -> np.ndarray:
        of_next = as_array(-log_p[:-1].gather(-1, ids[0, 1:, None])[:, 0])
        return np.concatenate([of_next, np.full(1, np.nan, dtype=of_next.dtype)])

    return InterventionEffect(
        logits_before=as_array(before),
        logits_after=as_array(after),
        loss_before=loss(log_before),
        loss_after=loss(log_after),
        kl=as_array(kl),
        top_before=top_before,
        top_after=top_after,
        top_before_texts=vocabulary_texts(model, top_before),
        top_after_texts=vocabulary_texts(model, top_after),
        p_before=as_array(p_before.gather(-1, first[:, None])[:, 0]),
        p_after=as_array(log_after.exp().gather(-1, first[:, None])[:, 0]),
        interventions=describe(interventions),
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
    )


def _wide(logits: torch.Tensor) -> torch.Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
