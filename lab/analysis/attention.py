"""Attention patterns of every head, and the same weighted by what the attended values write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.prompts import Prompt, as_array, prompt_ids, resolve_layer, token_texts, watch
from lab.analysis.results import Result, frame
from lab.analysis.sites import Index
from model.checks import wholes

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT


@dataclass(frozen=True, eq=False)
class AttentionPatterns(Result):
    """Where each head looks, and what of that reaches the stream.

    pattern          [layer, head, query, key] attention weights; rows sum to 1; 0 where masked
    value_weighted   [layer, head, query, key] weight times length of the value's output v W_O, rows scaled to
                     sum to 1 (all 0 where the head writes nothing)
    value_norms      [layer, head, key] length of v W_O
    masked           [query, key] True where the model cannot look (the future, or beyond the attention
                     window)
    layers           [layer] which layer each row of the arrays is
    tokens, token_texts   the prompt: ids [pos] and how they are displayed
    """

    pattern: np.ndarray
    value_weighted: np.ndarray
    value_norms: np.ndarray
    masked: np.ndarray
    layers: np.ndarray
    tokens: np.ndarray
    token_texts: tuple[str, ...]

    def display(self, weighting: str = "pattern") -> np.ndarray:
        """``pattern`` or ``value_weighted`` for drawing: NaN where masked, which is not a weight of 0."""
        if weighting not in ("pattern", "value_weighted"):
            raise ValueError(f"weighting is {weighting!r}; known are pattern, value_weighted.")
        return np.where(self.masked, np.nan, getattr(self, weighting)).astype(self.pattern.dtype, copy=False)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer, head, query and key that is not masked."""
        query, key = np.nonzero(~self.masked)
        n_layers, n_heads = self.pattern.shape[:2]
        repeats = n_layers * n_heads
        texts = np.array(self.token_texts, dtype=object)
        return frame(
            {
                "layer": np.repeat(self.layers, n_heads * len(query)),
                "head": np.tile(np.repeat(np.arange(n_heads), len(query)), n_layers),
                "query": np.tile(query, repeats),
                "key": np.tile(key, repeats),
                "query_token": np.tile(texts[query], repeats),
                "key_token": np.tile(texts[key], repeats),
                "pattern": self.pattern[:, :, query, key].ravel(),
                "value_weighted": self.value_weighted[:, :, query, key].ravel(),
            }
        )


def attention_patterns(model: GPT, tokens: Prompt, *, layers: Index = None) -> AttentionPatterns:
    """Attention weights of all heads (of ``layers``, if given), raw and value-weighted.

    A large weight on a value that is almost zero moves nothing: the weight alone is not influence. The
    value-weighted pattern multiplies it by the length of what that value would write into the stream
    (Kobayashi et al. 2020, "Attention is Not Only a Weight", arXiv 2004.10102), before any later norm. A
    prompt of one token has a 1 x 1 pattern.
    """
    config = model.config
    ids = prompt_ids(model, tokens)
    chosen = range(config.n_layers) if layers is None else wholes(layers, "layer")
    chosen = [resolve_layer(layer, config.n_layers) for layer in chosen]
    if not chosen:
        raise ValueError("layers is empty: give at least one layer, or None for all.")
    names = [f"blocks.{la}.attn.{point}" for la in chosen for point in ("hook_pattern", "hook_v")]
    _, cache = watch(model, ids, names, stop_at_layer=max(chosen) + 1)
    n = ids.shape[1]
    masked = hidden(n, config.attention_window)
    patterns, norms = [], []
    with torch.no_grad():
        for la in chosen:
            attention: Any = model.blocks[la].attn
            patterns.append(as_array(cache[f"blocks.{la}.attn.hook_pattern"][0]))
            norms.append(as_array(_written_lengths(cache[f"blocks.{la}.attn.hook_v"][0], attention.W_O)))
    pattern, value_norms = np.stack(patterns), np.stack(norms)
    weighted = pattern * value_norms[:, :, None, :]
    sums = weighted.sum(-1, keepdims=True)
    np.divide(weighted, sums, out=weighted, where=sums > 0)
    return AttentionPatterns(
        pattern=pattern,
        value_weighted=weighted,
        value_norms=value_norms,
        masked=masked,
        layers=np.array(chosen),
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
    )


def hidden(n_pos: int, window: int | None) -> np.ndarray:
    """[query, key] True where a causal model with this attention window cannot look."""
    distance = np.arange(n_pos)[:, None] - np.arange(n_pos)[None, :]
    return (distance < 0) | (distance >= window) if window is not None else distance < 0


def _written_lengths(v: Tensor, w_o: Tensor) -> Tensor:
    """|v W_O| [head, key] for v [key, key-value head, d_head], which groups of heads share."""
    v = v.repeat_interleave(w_o.shape[0] // v.shape[1], dim=1)
    if v.dtype != torch.float64:
        v, w_o = v.float(), w_o.float()
    return torch.einsum("khe,hed->hkd", v, w_o).norm(dim=-1)
