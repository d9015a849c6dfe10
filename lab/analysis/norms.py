"""How large the residual stream is at each layer, how much each sublayer adds, and in which direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lab.analysis.prompts import Prompt, as_array, prompt_ids, token_texts, watch
from lab.analysis.results import Result, frame, grid

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

POINTS = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")


@dataclass(frozen=True, eq=False)
class ResidualNorms(Result):
    """Root mean square over d_model of the stream and of its updates; length = RMS * sqrt(d_model).

    resid_pre, resid_mid, resid_post   [layer, pos] RMS of the stream before the layer, after its attention,
                                       after it
    attn_out, mlp_out                  [layer, pos] RMS of what each sublayer adds
    attn_cosine, mlp_cosine            [layer, pos] cosine between an update and the stream it is added to:
                                       above 0 it amplifies what is there, below 0 it erases; NaN where one of
                                       them is zero
    tokens, token_texts                the prompt: ids [pos] and how they are displayed
    d_model                            width of the stream
    """

    resid_pre: np.ndarray
    resid_mid: np.ndarray
    resid_post: np.ndarray
    attn_out: np.ndarray
    mlp_out: np.ndarray
    attn_cosine: np.ndarray
    mlp_cosine: np.ndarray
    tokens: np.ndarray
    token_texts: tuple[str, ...]
    d_model: int

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer and position."""
        layer, pos = grid(*self.resid_pre.shape)
        names = (*POINTS, "attn_cosine", "mlp_cosine")
        return frame(
            {
                "layer": layer,
                "position": pos,
                "token": np.array(self.token_texts, dtype=object)[pos],
                **{name: getattr(self, name).ravel() for name in names},
            }
        )


def residual_norms(model: GPT, tokens: Prompt) -> ResidualNorms:
    """Size of the stream and of each update, layer by layer.

    ``attn_out`` and ``mlp_out`` are what is added to the stream (Sandwich-Norm: after the sublayer's own
    norm). In Post-Norm the stream is normalised after each addition, so its size does not grow.
    """
    ids = prompt_ids(model, tokens)
    n_layers = model.config.n_layers
    names = [f"blocks.{layer}.hook_{point}" for layer in range(n_layers) for point in POINTS]
    _, cache = watch(model, ids, names, stop_at_layer=n_layers)
    points = {p: torch.stack([cache[f"blocks.{la}.hook_{p}"][0] for la in range(n_layers)]) for p in POINTS}
    points = {name: x if x.dtype == torch.float64 else x.float() for name, x in points.items()}  # [layer, pos, d]
    return ResidualNorms(
        **{name: as_array(x.square().mean(-1).sqrt()) for name, x in points.items()},
        attn_cosine=as_array(_cosine(points["attn_out"], points["resid_pre"])),
        mlp_cosine=as_array(_cosine(points["mlp_out"], points["resid_mid"])),
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
        d_model=model.config.d_model,
    )


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    """Along the last axis. 0/0 is NaN: a zero vector has no direction."""
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))
