"""Tying, loading, TransformerLens' weight names, and initialisation."""

from __future__ import annotations

import copy

import pytest
import torch

from model import GPT, GPTConfig
from tests.model.variants import tiny, tokens


def assert_tied(model: GPT) -> None:
    assert model.unembed.weight is model.embed.weight
    assert sum(p is model.embed.weight for p in model.parameters()) == 1
    assert torch.equal(model.W_U, model.W_E.T)


def test_tie_survives_everything() -> None:
    model = tiny()
    assert_tied(model)
    for other in (copy.deepcopy(model), copy.deepcopy(model).to(torch.float64), copy.deepcopy(model).half()):
        assert_tied(other)
    meta = GPT(GPTConfig.from_dict(model.config.to_dict() | {"n_layers": 2}), initialized=False).to("meta")
    meta.to_empty(device="cpu")
    meta.load_state_dict(model.state_dict())
    assert_tied(meta)
    with torch.device("meta"):
        born_meta = GPT(model.config)
    born_meta.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
    assert_tied(born_meta)
    x = tokens()
    torch.testing.assert_close(born_meta(x), model(x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x, return_type="loss").backward()
    optimizer.step()
    assert_tied(model)


def test_tied_weight_is_stored_once_and_disagreement_is_an_error() -> None:
    model = tiny()
    state = model.state_dict()
    assert "embed.weight" in state and "unembed.weight" not in state
    model.load_state_dict({**state, "unembed.weight": state["embed.weight"].clone()})
    with pytest.raises(ValueError, match="tie_word_embeddings=False"):
        model.load_state_dict({**state, "unembed.weight": state["embed.weight"] + 1})
    untied = tiny(tie_word_embeddings=False)
    with pytest.raises(ValueError, match="tie_word_embeddings=True"):
        untied.load_state_dict(state)
    with pytest.raises(ValueError, match="disagree"):
        model.load_state_dict(untied.state_dict())
    assert untied.unembed.weight is not untied.embed.weight


def test_another_n_ctx_blocks_nothing_but_learned_positions() -> None:
    for kind in ("rotary", "sinusoidal", "alibi", "none"):
        long = tiny(positional_embedding_type=kind, n_ctx=32)
        long.load_state_dict(tiny(positional_embedding_type=kind, n_ctx=16).state_dict())
    with pytest.raises(RuntimeError, match="pos_embed"):
        tiny(n_ctx=32).load_state_dict(tiny(n_ctx=16).state_dict())


def test_views_have_transformerlens_shapes_and_share_memory() -> None:
    model = tiny(n_key_value_heads=2, gated_mlp=True)
    attn, mlp = model.blocks[0].attn, model.blocks[0].mlp
    shapes = {
        "W_Q": (4, 16, 4), "W_K": (2, 16, 4), "W_V": (2, 16, 4), "W_O": (4, 4, 16),
        "b_Q": (4, 4), "b_K": (2, 4), "b_V": (2, 4), "b_O": (16,),
    }  # fmt: skip
    for name, shape in shapes.items():
        assert tuple(getattr(attn, name).shape) == shape, name
    assert mlp.W_in.shape == (16, 43) and mlp.W_gate.shape == (16, 43) and mlp.W_out.shape == (43, 16)
    assert model.W_Q.shape == (2, 4, 16, 4) and model.W_U.shape == (16, 23) and model.W_pos.shape == (16, 16)
    x = tokens()
    with torch.no_grad():
        before = model(x)
        attn.W_O[1].zero_()  # ablating a head through the view
        after = model(x)
        expected = tiny(n_key_value_heads=2, gated_mlp=True).run_with_hooks(
            x, fwd_hooks=[("blocks.0.attn.hook_result", lambda r, hook: r * torch.tensor([1, 0, 1, 1.0])[:, None])]
        )
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, expected, atol=1e-5, rtol=0)


def test_views_compute_what_the_hooks_see() -> None:
    model = tiny()
    _, cache = model.run_with_cache(tokens(), names_filter=lambda name: True)
    attn, block = model.blocks[0].attn, model.blocks[0]
    read = cache["blocks.0.ln1.hook_normalized"] * block.ln1.w + block.ln1.b
    q = torch.einsum("bpd,hdk->bphk", read, attn.W_Q) + attn.b_Q
    torch.testing.assert_close(q, cache["q", 0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(cache["result", 0].sum(2) + attn.b_O, cache["attn_out", 0], atol=1e-5, rtol=1e-5)
    post = cache["post", 0]
    torch.testing.assert_close(post @ block.mlp.W_out + block.mlp.b_out, cache["mlp_out", 0], atol=1e-5, rtol=1e-5)


def test_initialization_is_by_seed_and_name() -> None:
    shape = dict(d_vocab=23, n_ctx=16, d_model=16, n_layers=2, n_heads=4)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    base = GPT(GPTConfig(**shape))
    assert torch.equal(torch.get_rng_state(), state)  # torch's own stream is untouched
    assert torch.equal(GPT(GPTConfig(**shape)).W_E, base.W_E)
    assert not torch.equal(GPT(GPTConfig(**shape, seed=1)).W_E, base.W_E)
    deeper = GPT(GPTConfig(**{**shape, "n_layers": 4}, scaled_residual_init=False))
    assert torch.equal(deeper.blocks[1].attn.W_Q, base.blocks[1].attn.W_Q)
    gated = GPT(GPTConfig(**shape, gated_mlp=True, tie_word_embeddings=False, norm_placement="post", qk_norm=True))
    grouped = GPT(GPTConfig(**shape, n_key_value_heads=2))
    for other in (gated, grouped):
        assert torch.equal(other.W_E, base.W_E)
        assert torch.equal(other.blocks[0].attn.W_Q, base.blocks[0].attn.W_Q)
        assert torch.equal(other.blocks[1].attn.W_O, base.blocks[1].attn.W_O)


def test_initialization_scales() -> None:
    shape = dict(d_vocab=500, n_ctx=64, d_model=128, n_layers=8, n_heads=4)
    gpt2 = GPT(GPTConfig(**shape))
    assert gpt2.W_E.std().item() == pytest.approx(0.02, rel=0.02)
    assert gpt2.blocks[0].attn.W_O.std().item() == pytest.approx(0.02 / 4, rel=0.03)
    assert gpt2.blocks[0].mlp.W_in.std().item() == pytest.approx(0.02, rel=0.02)
    xavier = GPT(GPTConfig(**shape, init="xavier", scaled_residual_init=False))
    bound = (6 / (128 + 512)) ** 0.5
    assert xavier.blocks[0].mlp.W_in.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert xavier.blocks[0].attn.W_Q.abs().max().item() == pytest.approx((6 / 256) ** 0.5, rel=0.01)
    zero = GPT(GPTConfig(**shape, zero_projection_init=True))
    assert not zero.blocks[3].attn.W_O.any() and not zero.blocks[3].mlp.W_out.any()
    assert zero.blocks[3].attn.W_Q.any()


def test_errors_of_input() -> None:
    model = tiny()
    for bad, words in (
        ([[1, 23]], "Token id 23 is outside the vocabulary, 0 to 22"),
        ([[-1, 2]], "Token id -1"),
        (torch.zeros(1, 0, dtype=torch.long), "no token"),
        (torch.zeros(1, 2, 3, dtype=torch.long), "must be"),
        (torch.zeros(1, 17, dtype=torch.long), "17 positions are more than .* n_ctx 16"),
        (torch.rand(1, 4), "whole numbers"),
        ("text", "no tokenizer"),
        ([[1, 2], []], "Input 1 of 2 is empty"),
    ):
        with pytest.raises(ValueError, match=words):
            model(bad)
    with pytest.raises(ValueError, match="needs 2 tokens; this input has 1"):
        model([[3]], return_type="loss")
    with pytest.raises(ValueError, match="return_type"):
        model([[3]], return_type="logit")
