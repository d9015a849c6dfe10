"""Hooks are loud, leave nothing behind, and what was cached stays as it was."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import torch

from model.hooks import HookShapeError, UnknownHookError
from tests.model.variants import tiny, tokens

LEGACY_NAMES = """hook_embed hook_pos_embed ln_final.hook_scale ln_final.hook_normalized""".split()
LEGACY_BLOCK_NAMES = """hook_resid_pre hook_resid_mid hook_resid_post hook_attn_out hook_mlp_out
    hook_attn_in hook_q_input hook_k_input hook_v_input hook_mlp_in
    ln1.hook_scale ln1.hook_normalized ln2.hook_scale ln2.hook_normalized
    attn.hook_q attn.hook_k attn.hook_v attn.hook_attn_scores attn.hook_pattern attn.hook_z attn.hook_result
    mlp.hook_pre mlp.hook_post""".split()


def test_names_and_shapes_are_transformerlens() -> None:
    model = tiny(positional_embedding_type="standard")
    _, cache = model.run_with_cache(tokens(2, 9), names_filter=lambda name: True)
    assert set(cache) == {*LEGACY_NAMES, *(f"blocks.{layer}.{name}" for layer in (0, 1) for name in LEGACY_BLOCK_NAMES)}
    shapes = {
        "hook_embed": (2, 9, 16),
        "hook_pos_embed": (2, 9, 16),
        "blocks.1.hook_resid_mid": (2, 9, 16),
        "blocks.1.hook_q_input": (2, 9, 4, 16),
        "blocks.1.ln1.hook_scale": (2, 9, 1),
        "blocks.1.attn.hook_q": (2, 9, 4, 4),
        "blocks.1.attn.hook_attn_scores": (2, 4, 9, 9),
        "blocks.1.attn.hook_pattern": (2, 4, 9, 9),
        "blocks.1.attn.hook_z": (2, 9, 4, 4),
        "blocks.1.attn.hook_result": (2, 9, 4, 16),
        "blocks.1.mlp.hook_post": (2, 9, 64),
    }
    for name, shape in shapes.items():
        assert tuple(cache[name].shape) == shape, name


def test_rotary_gated_and_grouped_names() -> None:
    model = tiny(positional_embedding_type="rotary", gated_mlp=True, n_key_value_heads=2)
    _, cache = model.run_with_cache(tokens(2, 9))
    assert cache["blocks.0.attn.hook_rot_k"].shape == (2, 9, 2, 4)
    assert cache["blocks.0.attn.hook_rot_q"].shape == (2, 9, 4, 4)
    assert cache["blocks.0.attn.hook_v"].shape == (2, 9, 2, 4)
    assert cache["blocks.0.mlp.hook_pre_linear"].shape == cache["blocks.0.mlp.hook_pre"].shape
    assert "hook_pos_embed" not in cache


@pytest.mark.parametrize("wrong", ["blocks.0.hook_resid_pst", ["hook_embed", "blocks.0.hook_resid_pst"]])
def test_misspelt_names_are_errors_with_the_nearest(wrong: object) -> None:
    model = tiny()
    for call in (
        lambda: model.run_with_cache(tokens(), names_filter=wrong),
        lambda: model.run_with_hooks(tokens(), fwd_hooks=[(wrong, lambda a, hook: None)]),
        lambda: model.add_hook(wrong, lambda a, hook: None),
    ):
        with pytest.raises(UnknownHookError, match=r"did you mean 'blocks\.0\.hook_resid_post'"):
            call()
    assert not model.refresh_watch()


def test_every_kind_of_filter() -> None:
    model = tiny()
    x = tokens()
    names = ("blocks.0.hook_resid_mid", "hook_embed")
    for names_filter in (names, list(names), set(names), re.compile(r"^(blocks\.0\.hook_resid_mid|hook_embed)$")):
        assert set(model.run_with_cache(x, names_filter=names_filter)[1]) == set(names)
    _, empty = model.run_with_cache(x, names_filter=lambda name: False)
    assert len(empty) == 0
    with pytest.raises(KeyError, match="empty"):
        empty["hook_embed"]
    _, some = model.run_with_cache(x, names_filter="blocks.0.attn.hook_pattern")
    with pytest.raises(KeyError, match=r"did you mean 'blocks.0.attn.hook_pattern'"):
        some["blocks.0.attn.hook_patern"]


@pytest.mark.parametrize("bad", [lambda t: t[:, :2], lambda t: t.double(), lambda t: 3.0, lambda t: t.numpy()])
def test_a_hook_that_returns_something_else_is_refused(bad) -> None:
    model = tiny()
    later: list[int] = []
    with torch.no_grad(), pytest.raises(HookShapeError, match=r"blocks\.0\.attn\.hook_z .*\[2, 9, 4, 4\]"):
        model.run_with_hooks(
            tokens(),
            fwd_hooks=[
                ("blocks.0.attn.hook_z", lambda z, hook: bad(z)),
                ("blocks.0.attn.hook_z", lambda z, hook: later.append(1)),
            ],
        )
    assert not later


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_no_hook(error: type[BaseException]) -> None:
    model = tiny()
    x = tokens()
    before = model(x)

    def fail(activation, hook):
        raise error("stop")

    with pytest.raises(error, match="stop"):
        model.run_with_hooks(x, fwd_hooks=[("blocks.1.hook_resid_mid", fail)])
    with pytest.raises(error, match="stop"), model.hooks(fwd_hooks=[("hook_embed", lambda a, hook: a * 0)]):
        raise error("stop")
    assert torch.equal(model(x), before)
    assert not model.watch.on


def test_a_users_own_hook_stays() -> None:
    model = tiny()
    x = tokens()
    seen: list[str] = []
    model.add_hook("blocks.0.hook_mlp_out", lambda a, hook: seen.append(hook.name))
    model.run_with_cache(x)
    model.run_with_hooks(x, fwd_hooks=[("blocks.0.hook_mlp_out", lambda a, hook: None)])
    model(x)
    assert seen == ["blocks.0.hook_mlp_out"] * 3
    model.reset_hooks()
    model(x)
    assert len(seen) == 3
    assert not model.watch.on


def test_raw_torch_hooks_fire_too_and_their_removal_is_noticed() -> None:
    model = tiny()
    seen: list[int] = []
    handle = model.blocks[0].attn.hook_pattern.register_forward_hook(lambda *_: seen.append(1))
    model(tokens())
    handle.remove()
    model(tokens())
    assert seen == [1]
    assert not model.watch.on


def test_a_cache_is_a_snapshot() -> None:
    model = tiny()
    x = tokens()

    def zero_in_place(activation, hook):
        activation.zero_()

    with torch.no_grad():
        _, plain = model.run_with_cache(x)
        # The next block's resid_pre is the same tensor as this block's resid_post.
        with model.hooks(fwd_hooks=[("blocks.1.hook_resid_pre", zero_in_place)]):
            _, cache = model.run_with_cache(x)
        torch.testing.assert_close(cache["resid_post", 0], plain["resid_post", 0])
        assert not cache["resid_pre", 1].any()
        # Nor does training, or editing what was returned, reach into it.
        kept = {name: tensor.clone() for name, tensor in plain.items()}
        for parameter in model.parameters():
            parameter.add_(1.0)
        residual, stopped = model.run_with_cache(x, stop_at_layer=1)
        same = stopped["resid_post", 0].clone()
        residual.zero_()
    for name, tensor in plain.items():
        assert torch.equal(tensor, kept[name]), name
    assert torch.equal(stopped["resid_post", 0], same)


def test_scale_and_normalized_can_be_edited() -> None:
    model = tiny()
    x = tokens()
    with torch.no_grad():
        before = model(x)
        for name in ("ln_final.hook_scale", "blocks.0.ln1.hook_normalized", "blocks.1.ln2.hook_scale"):
            edited = model.run_with_hooks(x, fwd_hooks=[(name, lambda a, hook: a * 2)])
            assert (edited - before).abs().max() > 1e-3, name


def test_split_inputs_reach_one_head_alone() -> None:
    for variant in ({}, {"n_key_value_heads": 2}, {"norm_placement": "post"}):
        model = tiny(**variant)

        def silence_head_0(stream, hook):
            stream[:, :, 0] = 0.0
            return stream

        x = tokens()
        with torch.no_grad():
            _, before = model.run_with_cache(x, names_filter="blocks.0.attn.hook_q")
            with model.hooks(fwd_hooks=[("blocks.0.hook_q_input", silence_head_0)]):
                _, after = model.run_with_cache(x, names_filter="blocks.0.attn.hook_q")
        difference = (after["q", 0] - before["q", 0]).abs().amax((0, 1, 3))
        assert difference[0] > 1e-3
        torch.testing.assert_close(difference[1:], torch.zeros(3), atol=1e-5, rtol=0)


def test_editing_a_norm_under_split_inputs_is_refused_not_ignored() -> None:
    model = tiny()
    edits = [("blocks.0.ln1.hook_scale", lambda a, hook: a * 2), ("blocks.0.hook_q_input", lambda a, hook: None)]
    with pytest.raises(ValueError, match="one at a time"):
        model.run_with_hooks(tokens(), fwd_hooks=edits)


def test_backward_cache_leaves_gradients_alone() -> None:
    model = tiny()
    x = tokens()
    model(x, return_type="loss").backward()
    before = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    _, cache = model.run_with_cache(x, return_type="loss", names_filter="blocks.0.hook_resid_mid", incl_bwd=True)
    assert set(cache) == {"blocks.0.hook_resid_mid", "blocks.0.hook_resid_mid_grad"}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad, before[name])
    # The gradient against a finite difference along itself.
    gradient = cache["blocks.0.hook_resid_mid_grad"]
    step = 1e-2 * gradient / gradient.norm()
    with torch.no_grad():
        losses = [
            model.run_with_hooks(
                x, return_type="loss", fwd_hooks=[("blocks.0.hook_resid_mid", lambda a, hook, s=sign: a + s * step)]
            )
            for sign in (-1, 1)
        ]
    torch.testing.assert_close((losses[1] - losses[0]) / 2e-2, gradient.norm(), atol=1e-3, rtol=1e-2)
    with pytest.raises(ValueError, match="scalar"):
        model.run_with_cache(x, incl_bwd=True)


def test_copies_and_pickles_are_independent_and_carry_no_hooks() -> None:
    model = tiny()
    x = tokens()
    model.add_hook("blocks.0.hook_mlp_out", lambda a, hook: a * 0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not other.watch.on
        assert other.watch is not model.watch
        assert other.unembed.weight is other.embed.weight
        other.add_hook("hook_embed", lambda a, hook: a * 0)
    assert not model.hook_dict["hook_embed"].fwd_hooks
    assert "hook" not in " ".join(model.state_dict())
    model.reset_hooks()
    assert torch.equal(copy.deepcopy(model)(x), model(x))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_the_config_under_transformerlens_name_can_be_copied(copied) -> None:
    model = tiny()
    for other in (copied(model.cfg), copied(model).cfg):
        assert other == model.cfg
        assert (other.d_model, other.device, other.dtype) == (16, model.device, torch.float32)
        assert not hasattr(other, "_no_such_thing")
        assert not hasattr(other, "no_such_thing")


def test_remove_batch_dim_and_pos_slice() -> None:
    model = tiny()
    _, cache = model.run_with_cache(tokens(1, 9), remove_batch_dim=True, pos_slice=(2, 5))
    assert cache["resid_post", 0].shape == (3, 16)
    assert cache["pattern", 0].shape == (4, 3, 9)
    with pytest.raises(ValueError, match="batch of one"):
        model.run_with_cache(tokens(2, 9), remove_batch_dim=True)
    assert np.isfinite(cache["resid_post", 1].numpy()).all()
