"""What heads are by their weights alone: what they copy, and which of them read which.

A head is two matrices on the stream: OV = W_V W_O, what it writes when it looks at something, and QK = W_Q W_K^T,
what it looks for (row vectors: x OV). Both have rank d_head at most and are kept in that form.
Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.prompts import as_array, resolve_layer, resolve_token, resolve_top_k, token_name, vocabulary_texts
from lab.analysis.results import Result, frame, grid
from lab.analysis.sites import resolve_site, resolve_units
from model.checks import whole

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

KINDS = ("q", "k", "v")


@dataclass(frozen=True, eq=False)
class HeadWeights(Result):
    """Every head by its weights.

    copying       [layer, head] sum of eigenvalues over sum of their magnitudes of W_E OV W_U, from -1 (the token
                  looked at becomes less likely) to 1 (it becomes more likely: copying)
    composition   "q", "k", "v" -> [layer, head, layer, head]: how much the second head's query, key or value reads
                  what the first writes, |OV M| / (|OV| |M|) in Frobenius norms; NaN unless the second is later
    chance        the same for random matrices of this shape
    """

    copying: np.ndarray
    composition: dict[str, np.ndarray]
    chance: float

    def to_frame(self) -> pandas.DataFrame:
        """A row for each pair of heads of which the second is later."""
        first = self.composition["q"]
        index = grid(*first.shape)
        known = np.isfinite(first.ravel())
        names = ("from_layer", "from_head", "to_layer", "to_head")
        columns = {name: column[known] for name, column in zip(names, index, strict=True)}
        return frame({**columns, **{kind: self.composition[kind].ravel()[known] for kind in KINDS}})

    def strongest(self, kind: str, count: int = 10) -> list[tuple[str, str, float]]:
        """(from, to, score) of the strongest compositions, e.g. ("L0H0", "L1H0", 0.4)."""
        scores, count = self.composition[kind], whole(count, "count", 0)
        order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), axis=None, kind="stable")
        found = []
        for a, b, c, d in zip(*np.unravel_index(order[:count], scores.shape), strict=True):
            if np.isfinite(scores[a, b, c, d]):
                found.append((f"L{a}H{b}", f"L{c}H{d}", float(scores[a, b, c, d])))
        return found


def head_weights(model: GPT) -> HeadWeights:
    """Copying and composition scores of all heads, from the weights alone.

    In a Pre-Norm model the scales of the norms that each matrix reads through are folded in (and LayerNorm's
    centring); other placements put norms between writer and reader that depend on the input, and only the bare
    matrices are compared. Rotary or other positions act between query and key and are left out.
    """
    config = model.config
    n_layers, n_heads, group = config.n_layers, config.n_heads, config.n_heads // int(config.n_key_value_heads or 1)
    parts = [_layer_weights(model, layer, group) for layer in range(n_layers)]
    copying = torch.stack([_copying(model, w["v"], w["o"]) for w in parts])
    composition = {kind: np.full((n_layers, n_heads, n_layers, n_heads), np.nan) for kind in KINDS}
    for first, writer in enumerate(parts):
        written = _root(writer["v"]) @ writer["o"]  # [head, d_head, d_model], |OV| = |written|
        size = written.flatten(1).norm(dim=1)
        for second in range(first + 1, n_layers):
            reader = parts[second]
            # M on the right of OV: Q reads through W_Q (W_K^T is what it is compared with), and so on
            for kind, inner, outer in (("q", "q", "k"), ("k", "k", "q"), ("v", "v", "o")):
                other = reader[outer].transpose(-1, -2) if kind == "v" else reader[outer]
                read = reader[inner] @ _root(other).transpose(-1, -2)  # [head, d_model, d_head], |M| = |read|
                both = torch.einsum("aed,bdf->abef", written, read).flatten(2).norm(dim=2)
                norms = size[:, None] * read.flatten(1).norm(dim=1)[None]
                composition[kind][first, :, second] = as_array(both / norms)
    return HeadWeights(copying=as_array(copying), composition=composition, chance=_chance(config.d_model))


def _layer_weights(model: GPT, layer: int, group: int) -> dict[str, Tensor]:
    """q, k, v [head, d_model, d_head] and o [head, d_head, d_model], norm scales folded in where that is exact."""
    block: Any = model.blocks[layer]
    attention = block.attn
    w = {name: getattr(attention, f"W_{name.upper()}").detach().double() for name in ("q", "k", "v", "o")}
    w["k"], w["v"] = (w[name].repeat_interleave(group, dim=0) for name in ("k", "v"))
    if model.config.norm_placement != "post":
        for name in KINDS:
            w[name] = _through_norm(model, block.ln1, w[name])
    return w


def _through_norm(model: GPT, norm: Any, w: Tensor) -> Tensor:
    """A matrix [..., d_model, out] as it reads the stream before a norm, up to the norm's own scale."""
    w = norm.w.detach().double()[:, None] * w
    return w - w.mean(-2, keepdim=True) if model.config.normalization_type == "LN" else w


def _root(w: Tensor) -> Tensor:
    """R [..., d_head, d_head] with |R x| = |w x|: a tall matrix [..., d_model, d_head] as short as its rank."""
    return torch.linalg.qr(w, mode="r").R


def _copying(model: GPT, w_v: Tensor, w_o: Tensor) -> Tensor:
    """[head] the copying score. W_E V O W_U and O W_U W_E V have the same eigenvalues but for zeros."""
    w_u = model.W_U.detach().double()
    if model.config.norm_placement != "post":
        w_u = _through_norm(model, model.ln_final, w_u)
    around = w_u @ model.W_E.detach().double()  # [d_model, d_model]
    values = torch.linalg.eigvals(w_o @ around @ w_v)
    total = values.abs().sum(-1)
    return torch.where(total > 0, values.real.sum(-1) / total.clamp_min(1e-300), 0.0)


def _chance(d_model: int) -> float:
    """|A B| / (|A| |B|) of independent random matrices is about 1 / sqrt(d_model)."""
    return float(d_model**-0.5)


@dataclass(frozen=True, eq=False)
class TokenEffects(Result):
    """Tokens whose logits something raises and lowers most, read directly from weights.

    source                 "L1H0 OV of “a”", "L2N17", ...
    promoted, suppressed   [k] ids, the strongest first; *_texts how they are displayed; *_values the logits
    """

    source: str
    promoted: np.ndarray
    promoted_texts: np.ndarray
    promoted_values: np.ndarray
    suppressed: np.ndarray
    suppressed_texts: np.ndarray
    suppressed_values: np.ndarray

    def to_frame(self) -> pandas.DataFrame:
        """A row for each rank."""
        names = ("promoted_texts", "promoted_values", "suppressed_texts", "suppressed_values")
        return frame({"rank": np.arange(1, len(self.promoted) + 1), **{name: getattr(self, name) for name in names}})


def neuron_tokens(model: GPT, layer: int, neuron: int, top_k: int = 10) -> TokenEffects:
    """Tokens that a neuron promotes and suppresses: its output weights through the unembedding, final norm's scale
    (not its statistics) included. The sign is that of a positive activation (Geva et al. 2022, arXiv 2203.14680)."""
    at = resolve_layer(layer, model.config.n_layers)
    (neuron,) = resolve_units(resolve_site("neuron"), whole(neuron, "neuron"), model.config)
    block: Any = model.blocks[at]
    return _effects(model, block.mlp.W_out[neuron].detach(), f"L{at}N{neuron}", top_k)


def head_tokens(model: GPT, layer: int, head: int, token: int | str, top_k: int = 10) -> TokenEffects:
    """Tokens that a head promotes and suppresses when it looks at ``token``: a row of W_E OV W_U, its OV circuit.

    The token's embedding is read as the first layer's head would read it, through the norm at its own scale.
    """
    at = resolve_layer(layer, model.config.n_layers)
    (head,) = resolve_units(resolve_site("head"), whole(head, "head"), model.config)
    index = resolve_token(model, token)
    block: Any = model.blocks[at]
    group = model.config.n_heads // int(model.config.n_key_value_heads or 1)
    with torch.no_grad():
        read = model.W_E[index]
        read = read if model.config.norm_placement == "post" else block.ln1.unwatched(read)
        written = read @ block.attn.W_V[head // group] @ block.attn.W_O[head]
    return _effects(model, written, f"L{at}H{head} at “{token_name(model, index)}”", top_k)


def _effects(model: GPT, written: Tensor, source: str, top_k: int) -> TokenEffects:
    k = resolve_top_k(top_k, model.config.d_vocab)
    w_u = model.W_U.detach().double()
    if model.config.norm_placement != "post":
        w_u = _through_norm(model, model.ln_final, w_u)
    logits = written.double() @ w_u
    up, down = logits.topk(k), (-logits).topk(k)
    return TokenEffects(
        source=source,
        promoted=as_array(up.indices),
        promoted_texts=vocabulary_texts(model, as_array(up.indices)),
        promoted_values=as_array(up.values),
        suppressed=as_array(down.indices),
        suppressed_texts=vocabulary_texts(model, as_array(down.indices)),
        suppressed_values=-as_array(down.values),
    )
