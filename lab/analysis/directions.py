"""Directions in the residual stream to steer along: what tells two tokens apart, or two prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lab.analysis.prompts import Prompt, as_array, prompt_ids, resolve_choice, resolve_layer, resolve_token, watch
from lab.analysis.sites import resolve_site

if TYPE_CHECKING:
    from model.gpt import GPT

READS = ("last", "mean")
"""Where a prompt's activation is taken: at its last token, or as the mean over all of them."""


def token_direction(model: GPT, token: int | str, versus: int | str | None = None) -> np.ndarray:
    """Unit vector [d_model] along which the final stream raises the logit of a token, less that of ``versus``.

    The unembedding's column (a difference of two) with the gain of the final norm, which is the direction the logits
    read. Without ``versus`` it is told from the mean of the vocabulary.
    """
    wanted = resolve_token(model, token)
    columns = model.W_U.detach().float()
    if versus is None:
        away = columns.mean(1)
    else:
        against = resolve_token(model, versus, "versus")
        if against == wanted:
            raise ValueError("token and versus are the same token: there is no direction between them.")
        away = columns[:, against]
    gain = model.ln_final.w
    difference = columns[:, wanted] - away
    return _unit(difference if gain is None else difference * gain.detach().float(), "the two tokens")


def prompt_direction(
    model: GPT, prompt: Prompt, versus: Prompt, layer: int, *, site: str = "resid_post", read: str = "last"
) -> np.ndarray:
    """Unit vector [d_model] from the activation of ``versus`` to that of ``prompt`` at a site of one layer.

    read: "last", at the last token of each; "mean", the mean over each prompt's tokens (Turner et al. 2023,
    arXiv 2308.10248; Rimsky et al. 2023, arXiv 2312.06681). ValueError for a site that is no stream, or prompts whose
    activations are alike.
    """
    resolve_choice(read, READS, "read")
    found = resolve_site(site)
    if found.units is not None:
        raise ValueError(f"A direction to steer along is one of a stream, not of {site!r}; give resid_post, ...")
    point = found.point(resolve_layer(layer, model.config.n_layers))

    def activation(text: Prompt) -> Tensor:
        _, cache = watch(model, prompt_ids(model, text), [point], return_type=None)
        stream: Tensor = cache[point][0].float()
        return stream[-1] if read == "last" else stream.mean(0)

    return _unit(activation(prompt) - activation(versus), "the two prompts")


def _unit(difference: Tensor, what: str) -> np.ndarray:
    length = torch.linalg.vector_norm(difference)
    if not float(length) > 0:
        raise ValueError(f"There is no direction between {what}: what the model holds of them is the same.")
    return as_array(difference / length)
