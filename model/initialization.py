"""Initial weights, drawn for each matrix from (seed, its name), so that models share every tensor they can share.

Adding, removing or reshaping one tensor never shifts the values of another: two arms of a study that differ in
one place start from the same weights everywhere else.

    init            embeddings        W_Q W_K W_V W_in W_gate   W_O W_out                         norms, biases
    gpt2            N(0, std)         N(0, std)                 N(0, std / sqrt(2 n_layers)) *    1, 0
    xavier          N(0, d_model^-1/2)  uniform, fan in + out   the same, / sqrt(2 n_layers) *    1, 0

* without scaled_residual_init: not divided; with zero_projection_init: zero.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from model.mlp import GatedMLP
from model.positions import LearnedPositions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from model.block import Block
    from model.gpt import GPT


def named_generator(seed: int, name: str) -> torch.Generator:
    """A CPU generator that depends on nothing but the seed and the name."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") % 2**63)


@torch.no_grad()
def initialize(model: GPT) -> None:
    """Fill a model's weights in place, by its config's ``init`` and ``seed``."""
    config = model.config
    embedding_std = config.init_std if config.init == "gpt2" else config.d_model**-0.5
    _normal(model.embed.weight, "embed.W_E", config.seed, embedding_std)
    if isinstance(model.pos_embed, LearnedPositions):
        _normal(model.pos_embed.weight, "pos_embed.W_pos", config.seed, embedding_std)
    if not config.tie_word_embeddings:
        _normal(model.unembed.weight, "unembed.W_U", config.seed, embedding_std)
    shrink = (2 * config.n_layers) ** -0.5 if config.scaled_residual_init else 1.0
    for layer, block in enumerate(cast("Iterable[Block]", model.blocks)):
        attn, mlp = block.attn, block.mlp
        here = f"blocks.{layer}"
        inner = {"attn.W_Q": attn.W_Q, "attn.W_K": attn.W_K, "attn.W_V": attn.W_V, "mlp.W_in": mlp.W_in}
        if isinstance(mlp, GatedMLP):
            inner["mlp.W_gate"] = mlp.W_gate
        for name, weight in inner.items():
            _matrix(weight, f"{here}.{name}", model, 1.0)
        for name, weight in (("attn.W_O", attn.W_O), ("mlp.W_out", mlp.W_out)):
            if config.zero_projection_init:
                weight.zero_()
            else:
                _matrix(weight, f"{here}.{name}", model, shrink)
    for name, parameter in model.named_parameters():
        if name.endswith((".bias", ".b")):
            parameter.zero_()


def _matrix(weight: Tensor, name: str, model: GPT, factor: float) -> None:
    """One of a block's maps, in TransformerLens' shape: [in, out] or [head, in, out]."""
    config = model.config
    if config.init == "gpt2":
        _normal(weight, name, config.seed, config.init_std * factor)
        return
    # Xavier (Glorot and Bengio 2010) over the whole map, all heads side by side.
    heads = weight.shape[0] if weight.ndim == 3 else 1
    out_of_heads = name.endswith("W_O")
    fan_in, fan_out = weight.shape[-2], weight.shape[-1]
    fan = fan_in * heads + fan_out if out_of_heads else fan_in + fan_out * heads
    bound = math.sqrt(6 / fan) * factor
    drawn = torch.empty(weight.shape).uniform_(-bound, bound, generator=named_generator(config.seed, name))
    weight.copy_(drawn)


def _normal(weight: Tensor, name: str, seed: int, std: float) -> None:
    weight.copy_(torch.empty(weight.shape).normal_(0, std, generator=named_generator(seed, name)))
