"""Every variant the tests go through: 2 norms x 3 placements x 5 positions x gated or not x tied or not."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from model import GPT, GPTConfig
from model.config import NORM_PLACEMENTS, NORMALIZATION_TYPES, POSITIONAL_EMBEDDINGS

VARIANTS = [
    dict(
        normalization_type=norm,
        norm_placement=placement,
        positional_embedding_type=positions,
        gated_mlp=gated,
        tie_word_embeddings=tied,
    )
    for norm, placement, positions, gated, tied in product(
        NORMALIZATION_TYPES, NORM_PLACEMENTS, POSITIONAL_EMBEDDINGS, (False, True), (False, True)
    )
]


def name_of(variant: dict[str, Any]) -> str:
    return "-".join(str(value) for value in variant.values())


def tiny(seed: int = 0, **changes: Any) -> GPT:
    """A model small enough for hundreds of tests, with weights large enough that every part matters."""
    shape = dict(d_vocab=23, n_ctx=16, d_model=16, n_layers=2, n_heads=4, init_std=0.3, seed=seed)
    model = GPT(GPTConfig.from_dict({**shape, **changes}))
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():  # biases and norm weights away from 0 and 1, so that a forgotten one shows
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def tokens(batch: int = 2, length: int = 9, d_vocab: int = 23, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, d_vocab, (batch, length), generator=torch.Generator().manual_seed(seed))
