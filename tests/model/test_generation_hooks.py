"""Hooks act during generation, and generation leaves a model as it found it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model import GPT
from model.decoding import TokenPass
from tests.model.generated import CTX, V, make, state_of, tokens_of
from tests.model.variants import tiny


@pytest.fixture(scope="module")
def model() -> GPT:
    return make()


# ---- hooks


def test_hooks_act_during_generation_with_and_without_the_cache() -> None:
    model = make()

    def silence(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        z[:, :, 1] = 0
        return z

    free = model.generate(tokens_of(1, 2), 20, temperature=0)
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", silence), ("blocks.1.attn.hook_z", silence)]):
        cached = model.generate(tokens_of(1, 2), 20, temperature=0)
        uncached = model.generate(tokens_of(1, 2), 20, temperature=0, use_cache=False)
    assert torch.equal(cached, uncached)
    assert not torch.equal(cached, free)
    assert torch.equal(free, model.generate(tokens_of(1, 2), 20, temperature=0))
    with torch.no_grad():
        for block in model.blocks:
            block.attn.W_O[1] = 0
    assert torch.equal(cached, model.generate(tokens_of(1, 2), 20, temperature=0))


def test_a_hook_sees_every_token_once_with_the_cache(model: GPT) -> None:
    seen: list[int] = []
    with model.hooks(fwd_hooks=[("blocks.1.hook_resid_post", lambda x, hook: seen.append(x.shape[1]))]):
        model.generate(tokens_of(1, 2, 3), 5)
        assert seen == [3, 1, 1, 1, 1]
        seen.clear()
        model.generate(tokens_of(1, 2, 3), 5, use_cache=False)
        assert seen == [3, 4, 5, 6, 7]
        seen.clear()
        model.generate(tokens_of(1, 2, 3), CTX)
        assert seen == [3] + [1] * (CTX - 3) + [CTX] * 2


def test_watching_changes_no_token(model: GPT) -> None:
    free = model.generate(tokens_of(1, 2), 20, seed=3)
    with model.hooks(fwd_hooks=[(None, lambda x, hook: None)]):
        assert torch.equal(free, model.generate(tokens_of(1, 2), 20, seed=3))


def test_torchs_own_hooks_and_foreign_modules_are_not_passed_by() -> None:
    model = make()
    free = model.generate(tokens_of(1, 2), 6, temperature=0)
    fired: list[int] = []
    handle = model.blocks[1].mlp.register_forward_hook(lambda module, args, out: fired.append(out.shape[1]))
    model.generate(tokens_of(1, 2), 4)
    handle.remove()
    assert fired == [2, 1, 1, 1]
    fired.clear()
    handle = nn.modules.module.register_module_forward_hook(lambda *_: fired.append(0))
    model.generate(tokens_of(1), 2)
    handle.remove()
    assert len(fired) > 20

    class Silent(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 0

    model.blocks[0].mlp.w_out.__class__ = Silent
    replaced = model.generate(tokens_of(1, 2), 6, temperature=0)
    assert torch.equal(replaced, model.generate(tokens_of(1, 2), 6, temperature=0, use_cache=False))
    model.blocks[0].mlp.w_out.__class__ = nn.Linear
    assert torch.equal(free, model.generate(tokens_of(1, 2), 6, temperature=0))
    model.blocks[0].mlp.forward = lambda x: torch.zeros_like(x)
    assert not TokenPass.covers(model.modules())


def test_a_subclass_with_a_forward_of_its_own_is_used() -> None:
    class Stubborn(GPT):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            out = super().forward(*args, **kwargs)
            return out if kwargs.get("stop_at_layer") is not None else out + 100 * torch.eye(V)[7]

    model = Stubborn(make().config)
    assert model.generate(tokens_of(1), 4, temperature=0)[0].tolist() == [1, 7, 7, 7, 7]


# ---- nothing is left behind


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("use_cache", [True, False])
def test_mode_gradients_and_hooks_are_as_they_were(error: type[BaseException] | None, use_cache: bool) -> None:
    model = make(resid_dropout=0.5, embed_dropout=0.5, attn_dropout=0.5).train()
    model.blocks[0].eval()  # a mode of its own, which train() would lose
    model(tokens_of(1, 2, 3), return_type="loss").backward()
    calls: list[int] = []

    def hook(x: Tensor, hook: Any) -> None:
        calls.append(1)
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        if error is not None and len(calls) == 3:
            raise error("stop")

    model.add_hook("blocks.1.hook_resid_pre", hook)
    before = state_of(model)
    for run in (
        lambda: model.generate(tokens_of(1), 6, seed=0, use_cache=use_cache),
        lambda: list(model.stream(tokens_of(1), 6, seed=0, use_cache=use_cache)),
    ):
        calls.clear()
        if error is None:
            run()
        else:
            with pytest.raises(error, match="stop"):
                run()
        assert state_of(model) == before
        assert torch.is_grad_enabled()
    assert calls


def test_dropout_is_off_during_generation() -> None:
    model = make(resid_dropout=0.9).train()
    assert torch.equal(model.generate(tokens_of(1), 9, temperature=0), model.generate(tokens_of(1), 9, temperature=0))


def test_what_was_generated_can_be_trained_on() -> None:
    """Nothing made in inference mode gets out: results may take part in autograd."""
    model = make()
    out = model.generate(tokens_of(1, 2), 6, seed=0)
    model(out, return_type="loss").backward()
    out, cache = model.generate(tokens_of(1, 2), 6, seed=0, return_cache=True)
    direction = torch.ones(16, requires_grad=True)
    (cache["blocks.0.hook_resid_post"] @ direction).sum().backward()
    assert direction.grad is not None and direction.grad.abs().sum() > 0


def test_weights_may_change_between_generations() -> None:
    model = make()
    model.generate(tokens_of(1), 6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.7)
    assert torch.equal(
        model.generate(tokens_of(1), 6, temperature=0), model.generate(tokens_of(1), 6, temperature=0, use_cache=False)
    )


# ---- return_cache


@pytest.mark.parametrize("new", [0, 4, 2 * CTX])
def test_the_cache_is_of_the_final_sequence(model: GPT, new: int) -> None:
    out, cache = model.generate(tokens_of(1, 2, 3), new, seed=0, return_cache=True)
    assert out.shape == (1, 3 + new)
    _, expected = model.run_with_cache(out[:, -CTX:])
    assert list(cache.keys()) == list(expected.keys())
    for name in expected:
        assert torch.equal(cache[name], expected[name]), name
    assert cache["blocks.0.attn.hook_pattern"].shape[-1] == min(3 + new, CTX)


def test_the_cache_under_a_hook_and_with_padding() -> None:
    model = make()
    with model.hooks(fwd_hooks=[("blocks.0.hook_mlp_out", lambda x, hook: x * 0)]):
        _, cache = model.generate([[1, 2, 3], [4]], 3, seed=0, return_cache=True)
    assert cache["blocks.0.hook_mlp_out"].abs().max() == 0
    pattern = cache["blocks.0.attn.hook_pattern"][1]
    assert pattern[:, 2:, :2].abs().max() == 0  # nobody looks at padding


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_forward_hook_of_the_model_itself_sees_logits_at_every_step(use_cache: bool) -> None:
    model = tiny(init_std=0.6)
    shapes: list[tuple[int, ...]] = []

    def favour(module, inputs, output):
        shapes.append(tuple(output.shape))
        return output + 50 * torch.nn.functional.one_hot(torch.tensor(len(shapes)), 23)

    handle = model.register_forward_hook(favour)
    tokens = model.generate([[3, 1, 4]], 4, temperature=0, use_cache=use_cache)[0].tolist()
    handle.remove()
    assert tokens == [3, 1, 4, 1, 2, 3, 4]
    assert shapes == [(1, n, 23) for n in ((3, 1, 1, 1) if use_cache else (3, 4, 5, 6))]
