"""Weights that were folded or centred and then trained are folded or centred anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from model import GPT
from model.folding import center, fold_norms
from tests.model.variants import tiny, tokens

VARIANTS: list[dict[str, Any]] = [
    {},
    {"normalization_type": "RMS", "use_bias": False},
    {"gated_mlp": True, "tie_word_embeddings": False, "mlp_bias": False},
    {"norm_placement": "sandwich", "qk_norm": True},
    {"logit_soft_cap": 5.0},
]


def trained(model: GPT) -> GPT:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # plain gradients would leave the means at 0
    for seed in range(3):
        optimizer.zero_grad()
        model(tokens(seed=seed), return_type="loss").backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_folding_after_training_folds_again(variant: dict[str, Any]) -> None:
    once = fold_norms(tiny(**variant).double())
    assert fold_norms(once) is once
    model = trained(once)
    again = fold_norms(model)
    assert again is not model
    for norm in (*(block.ln1 for block in again.blocks), *(block.ln2 for block in again.blocks), again.ln_final):
        assert torch.equal(norm.w, torch.ones_like(norm.w))
    with torch.no_grad():
        torch.testing.assert_close(again(tokens()), model(tokens()), atol=1e-11, rtol=0)
    assert fold_norms(again) is again


def test_a_bias_that_came_back_is_folded_too() -> None:
    model = fold_norms(tiny().double())
    with torch.no_grad():
        model.blocks[1].ln2.b += 0.3  # the gains are still 1
    again = fold_norms(model)
    assert not again.blocks[1].ln2.b.any()
    with torch.no_grad():
        torch.testing.assert_close(again(tokens()), model(tokens()), atol=1e-11, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[2], VARIANTS[4], {"positional_embedding_type": "rotary"}])
def test_centring_after_training_centres_again(variant: dict[str, Any], dtype: torch.dtype) -> None:
    once = center(tiny(**variant).to(dtype))
    assert center(once) is once
    model = trained(once)
    again = center(model)
    assert again is not model
    assert again.blocks[0].mlp.w_out.weight.double().mean(0).abs().max() < 10 * torch.finfo(dtype).eps
    if dtype == torch.float64:
        with torch.no_grad():
            found, wanted = (one(tokens()).log_softmax(-1) for one in (again, model))
        torch.testing.assert_close(found, wanted, atol=1e-11, rtol=0)
    assert center(again) is again


def test_both_after_training() -> None:
    model = trained(center(fold_norms(tiny().double())))
    again = center(fold_norms(model))
    with torch.no_grad():
        found, wanted = (one(tokens()).log_softmax(-1) for one in (again, model))
    torch.testing.assert_close(found, wanted, atol=1e-11, rtol=0)
