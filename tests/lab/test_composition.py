"""Heads by their weights, neurons' tokens, and a head's contribution split by source: each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lab.analysis import (
    head_tokens,
    head_weights,
    logit_contributions,
    neuron_tokens,
    planted_induction,
    residual_decomposition,
    source_contributions,
)
from tests.model.variants import tiny

IDS = [3, 1, 4, 1, 5, 9]
VARIANTS = [
    dict(norm_placement=placement, normalization_type=norm, **more)
    for placement in ("pre", "post", "sandwich")
    for norm in ("LN", "RMS")
    for more in ({}, dict(n_key_value_heads=2, positional_embedding_type="rotary", gated_mlp=True))
]


def test_the_planted_heads_are_what_they_were_made_to_be():
    weights = head_weights(planted_induction())
    assert weights.copying[1, 0] == pytest.approx(1)
    assert weights.strongest("k", 1)[0][:2] == ("L0H0", "L1H0")
    keys = weights.composition["k"][0, :, 1]
    assert keys[0, 0] > 1.5 * weights.chance
    assert keys[1].max() < 1e-6  # L0H1 writes where nobody reads
    assert weights.composition["v"][0, :, 1].max() < 1e-6
    assert np.isnan(weights.composition["q"][1]).all()
    assert len(weights.to_frame()) == 4


@pytest.mark.parametrize("norm", ["LN", "RMS"])
def test_scores_are_their_definitions(norm):
    model = tiny(normalization_type=norm, n_key_value_heads=2).double()
    weights = head_weights(model)
    centre = torch.eye(16, dtype=torch.float64) - (1 / 16 if norm == "LN" else 0)
    layers = []
    for block in model.blocks:
        attention, scale = block.attn, torch.diag(block.ln1.w)
        q, k, v, o = attention.W_Q, attention.W_K, attention.W_V, attention.W_O
        folded = centre @ scale
        layers.append([(folded @ q[h] @ k[h // 2].T @ folded.T, folded @ v[h // 2] @ o[h]) for h in range(4)])
    for first in range(4):
        for second in range(4):
            ov, (qk, later_ov) = layers[0][first][1], layers[1][second]
            for kind, m in (("q", qk), ("k", qk.T), ("v", later_ov)):
                wanted = (ov @ m).norm() / (ov.norm() * m.norm())
                assert weights.composition[kind][0, first, 1, second] == pytest.approx(wanted.item(), rel=1e-6)
    w_u = centre @ torch.diag(model.ln_final.w) @ model.W_U
    for layer in range(2):
        for head in range(4):
            eigenvalues = torch.linalg.eigvals(model.W_E @ layers[layer][head][1] @ w_u)
            wanted = eigenvalues.real.sum() / eigenvalues.abs().sum()
            assert weights.copying[layer, head] == pytest.approx(wanted.item(), abs=1e-6)


def test_chance_is_what_random_heads_have():
    model = tiny(d_model=64, n_heads=8, n_layers=3)
    weights = head_weights(model)
    assert np.nanmean(weights.composition["v"]) == pytest.approx(weights.chance, rel=0.15)


def test_a_neurons_tokens_are_its_weights_through_the_unembedding():
    model = tiny(normalization_type="RMS").double()
    found = neuron_tokens(model, 1, 5, top_k=3)
    logits = (model.blocks[1].mlp.W_out[5] * model.ln_final.w) @ model.W_U
    assert found.promoted.tolist() == logits.topk(3).indices.tolist()
    assert found.suppressed.tolist() == (-logits).topk(3).indices.tolist()
    assert np.allclose(found.suppressed_values, np.sort(logits.detach().numpy())[:3])
    assert list(found.to_frame()["rank"]) == [1, 2, 3]


def test_a_copying_head_promotes_what_it_looks_at():
    model = planted_induction()
    found = head_tokens(model, 1, 0, 7, top_k=2)
    assert found.promoted[0] == 7
    assert found.promoted_values[0] > 100 * abs(found.promoted_values[1])


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values())))
def test_heads_and_sources_sum(variant):
    """heads + bias = attn_out; components = logits; sources = head: in fp64 to 1e-10, for every placement."""
    model = tiny(**variant).double()
    split = logit_contributions(model, IDS, by="head", token=2, versus=5, position=4)
    assert split.error < 1e-10
    for layer in range(2):
        for head in range(4):
            sources = source_contributions(model, IDS, layer, head, token=2, versus=5, position=4)
            wanted = split.values[split.labels.index(f"L{layer}H{head}")]
            assert abs(sources.total - wanted) < 1e-10
            assert (sources.values[5:] == 0).all()
            assert sources.pattern.sum() == pytest.approx(1)
    by_head, by_component = (residual_decomposition(model, IDS, by=by) for by in ("head", "component"))
    attention = by_component.components[by_component.labels.index("L1 attn")]
    heads = [i for i, label in enumerate(by_head.labels) if label.startswith("L1H") or label == "L1 attn bias"]
    assert np.abs(by_head.components[heads].sum(0) - attention).max() < 1e-10
    assert by_head.error.max() < 1e-10


def test_the_planted_head_fetches_from_one_place():
    sources = source_contributions(planted_induction(), [1, 7, 2, 5, 9, 3, 8, 7], 1, 0)
    assert sources.token == 2
    assert sources.values.argmax() == 2
    assert sources.values[2] > 0.99 * sources.total


def test_bad_input_is_explained():
    model = tiny()
    with pytest.raises(ValueError, match="Neuron 64 does not exist at 'neuron': give 0 to 63"):
        neuron_tokens(model, 0, 64)
    with pytest.raises(ValueError, match="Head 4 does not exist"):
        head_tokens(model, 0, 4, 1)
    with pytest.raises(ValueError, match="Layer 3 does not exist"):
        source_contributions(model, IDS, 3, 0)
    with pytest.raises(ValueError, match="Position 6 is outside"):
        source_contributions(model, IDS, 0, 0, position=6)
    with (
        model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook: z * 2)]),
        pytest.raises(ValueError, match="no sum over its sources"),
    ):
        source_contributions(model, IDS, 0, 0)
