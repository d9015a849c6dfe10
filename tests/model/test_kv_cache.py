"""A key-value cache continues what it holds, and says when it cannot."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from model import GPT
from model.generation import KVCache
from tests.model.generated import CTX, V, make, tokens_of


@pytest.fixture(scope="module")
def model() -> GPT:
    return make()


def test_chunks_through_a_cache_are_one_pass(model: GPT) -> None:
    tokens = torch.randint(V, (2, CTX), generator=torch.Generator().manual_seed(0))
    whole = model(tokens)
    for sizes in ((1, 9), (4, 1, 5), (3, 3, 3, 1), (10,)):
        cache = KVCache(model.config)
        parts = [model(chunk, past_kv_cache=cache) for chunk in tokens.split(sizes, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-5)
        assert cache.length == CTX


def test_a_cropped_cache_forgets(model: GPT) -> None:
    cache = KVCache(model.config)
    with torch.no_grad():
        model(tokens_of(1, 2, 3, 4, 5), past_kv_cache=cache)
        cache.crop(2)
        assert cache.length == 2
        continued = model(tokens_of(7, 8), past_kv_cache=cache)
    torch.testing.assert_close(continued, model(tokens_of(1, 2, 7, 8))[:, 2:], rtol=0, atol=1e-5)


def test_a_cache_holds_what_the_hooks_see() -> None:
    model = make(positional_embedding_type="rotary", n_key_value_heads=2)
    cache = KVCache(model.config)
    with torch.no_grad():
        _, seen = model.run_with_cache(tokens_of(1, 2, 3), past_kv_cache=cache)
    keys, values = cache.layers[1].append(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4))
    assert torch.equal(keys[:, :, :3].transpose(1, 2), seen["blocks.1.attn.hook_rot_k"])
    assert torch.equal(values[:, :, :3].transpose(1, 2), seen["blocks.1.attn.hook_v"])


def test_a_cache_refuses_more_than_the_context(model: GPT) -> None:
    cache = KVCache(model.config)
    with torch.no_grad():
        model(torch.zeros(1, CTX, dtype=torch.long), past_kv_cache=cache)
        with pytest.raises(ValueError, match=f"{CTX + 1} positions .* {CTX}"):
            model(tokens_of(1), past_kv_cache=cache)
        with pytest.raises(ValueError, match=f"{CTX + 1} positions do not fit"):
            cache.layers[0].append(torch.zeros(1, 4, 1, 4), torch.zeros(1, 4, 1, 4))


def test_an_interrupted_pass_is_noticed(model: GPT) -> None:
    cache = KVCache(model.config)

    def interrupt(x: Tensor, hook: Any) -> None:
        raise KeyboardInterrupt

    with torch.no_grad():
        model(tokens_of(1, 2), past_kv_cache=cache)
        with pytest.raises(KeyboardInterrupt):
            model.run_with_hooks(tokens_of(3), fwd_hooks=[("blocks.1.hook_resid_pre", interrupt)], past_kv_cache=cache)
        with pytest.raises(ValueError, match=r"interrupted.*cache.crop\(2\)"):
            model(tokens_of(3), past_kv_cache=cache)
        cache.crop(2)
        again = model(tokens_of(3), past_kv_cache=cache)
    torch.testing.assert_close(again, model(tokens_of(1, 2, 3))[:, 2:], rtol=0, atol=1e-5)


def test_gradients_flow_through_a_cache() -> None:
    model = make().double()
    model(tokens_of(1, 2, 3, 4))[:, 2:].sum().backward()
    wanted = model.blocks[0].attn.w_qkv.weight.grad.clone()
    model.zero_grad()
    cache = KVCache(model.config)
    model(tokens_of(1, 2), past_kv_cache=cache)
    (model(tokens_of(3), past_kv_cache=cache).sum() + model(tokens_of(4), past_kv_cache=cache).sum()).backward()
    torch.testing.assert_close(model.blocks[0].attn.w_qkv.weight.grad, wanted)


def test_a_cache_grows_without_losing_anything() -> None:
    model = make(n_ctx=300)
    tokens = torch.randint(V, (1, 300), generator=torch.Generator().manual_seed(0))
    cache = KVCache(model.config)
    with torch.no_grad():
        parts = [model(chunk, past_kv_cache=cache) for chunk in tokens.split((40, 1, 60, 99, 100), dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens), rtol=0, atol=1e-4)
