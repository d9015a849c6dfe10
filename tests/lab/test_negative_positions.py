"""Positions counted from the end mean the prompt's own tokens for as long as it is continued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lab.analysis import Ablate, KnockOut, Patch, Scale, Steer, apply, intervention_effect
from model import GPT
from model.generation import KVCache
from tests.model.variants import tiny

IDS = [3, 1, 4, 1, 5, 9]
REFERENCE = [[7, 8, 9, 2], [2, 2, 5, 6]]

INTERVENTIONS: dict[str, Callable[[Any], Any]] = {
    "zero": lambda position: Ablate("head", 0, head=1, position=position),
    "zero the stream": lambda position: Ablate("resid_mid", 0, position=position),
    "mean": lambda position: Ablate("mlp_out", method="mean", reference=REFERENCE, position=position),
    "resample": lambda position: Ablate("attn_out", method="resample", reference=REFERENCE, position=position),
    "patch": lambda position: Patch("resid_pre", 1, source=[2, 7, 1, 8, 2, 8, 1, 8], position=position),
    "patch a value": lambda position: Patch("neuron", 0, neuron=[1, 3], value=2.0, position=position),
    "scale keys": lambda position: Scale("k", factor=-2, position=position),
    "scale": lambda position: Scale("resid_post", 0, factor=3, position=position),
    "steer": lambda position: Steer(torch.linspace(-3, 3, 16), 0, position=position),
    "knock out a key": lambda position: KnockOut(key=position),
    "knock out a query": lambda position: KnockOut(query=position, head=[0, 2]),
    "knock out both": lambda position: KnockOut(key=[0, 1], query=position),
}
POSITIONS: dict[str, tuple[Any, list[int]]] = {
    "-1": (-1, [5]),
    "-2": (-2, [4]),
    "first": (-6, [0]),
    "numpy": (np.int64(-2), [4]),
    "array": (np.array([-1, 0]), [5, 0]),
    "several": ([-1, -3, 2], [5, 3, 2]),
    "range": (range(-3, 0), [3, 4, 5]),
    "slice": (slice(-2, None), [4, 5]),
    "whole slice": (slice(None), [0, 1, 2, 3, 4, 5]),
    "stepped slice": (slice(None, None, -2), [5, 3, 1]),
}
MODELS: dict[str, dict[str, Any]] = {
    "learned": {"positional_embedding_type": "standard"},
    "rotary": {"positional_embedding_type": "rotary", "n_key_value_heads": 2},
    "alibi, window": {"positional_embedding_type": "alibi", "attention_window": 4},
}


def logits_of_steps(model: GPT, n_new: int, use_cache: bool) -> torch.Tensor:
    """[step, vocab] what each new token was drawn from."""
    seen: list[torch.Tensor] = []
    handle = model.unembed.register_forward_hook(lambda module, inputs, output: seen.append(output[0, -1].clone()))
    try:
        model.generate(torch.tensor([IDS]), n_new, temperature=0, use_cache=use_cache)
    finally:
        handle.remove()
    return torch.stack(seen)


@pytest.mark.parametrize("variant", MODELS)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kind", INTERVENTIONS)
def test_in_generation_they_stay_where_the_prompt_had_them(kind: str, position: str, variant: str) -> None:
    model = tiny(init_std=0.6, **MODELS[variant])
    counted_back, absolute = POSITIONS[position]
    logits = []
    for at in (counted_back, absolute):
        for use_cache in (True, False):
            with apply(model, INTERVENTIONS[kind](at)):
                logits.append(logits_of_steps(model, 6, use_cache))
    for other in logits[:3]:
        torch.testing.assert_close(other, logits[3], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["zero", "knock out a key", "steer"])
def test_stream_generates_the_same(kind: str) -> None:
    model = tiny(init_std=0.6)
    with apply(model, INTERVENTIONS[kind](-2)):
        steps = []
        for step in model.stream(torch.tensor(IDS), 6, temperature=0):
            steps.append(step.token)
            model(torch.tensor([[1, 2]]))  # another prompt in between is no continuation
        whole = model.generate(torch.tensor(IDS), 6, temperature=0, use_cache=False)
    with apply(model, INTERVENTIONS[kind](4)):
        absolute = model.generate(torch.tensor(IDS), 6, temperature=0)
    assert [*IDS, *steps] == whole.tolist() == absolute.tolist()
    assert model.watch.prompt_length is None


@pytest.mark.parametrize("kind", INTERVENTIONS)
def test_a_cache_of_ones_own_is_a_continuation_too(kind: str) -> None:
    model = tiny(init_std=0.6)
    more = [2, 6, 5]

    def run(at: int, first: int) -> torch.Tensor:
        cache = KVCache(model.config)
        with torch.no_grad(), apply(model, INTERVENTIONS[kind](at)):
            parts = [model(torch.tensor([IDS]), past_kv_cache=cache)]
            parts += [model(torch.tensor([[token]]), past_kv_cache=cache) for token in more[:first]]
            parts.append(model(torch.tensor([more[first:]]), past_kv_cache=cache))
        return torch.cat(parts, 1)

    torch.testing.assert_close(run(-2, 1), run(4, 1))
    torch.testing.assert_close(run(-2, 0), run(4, 0))


@pytest.mark.parametrize("kind", INTERVENTIONS)
@pytest.mark.parametrize("position", [-1, [-2, 0], slice(-2, None)])
def test_each_row_of_a_padded_batch_counts_from_its_own_end(kind: str, position: Any) -> None:
    model = tiny(init_std=0.6)
    rows = [IDS, IDS[2:5], IDS[1:]]
    with apply(model, INTERVENTIONS[kind](position)):
        together = model.generate(rows, 5, temperature=0)
        uncached = model.generate(rows, 5, temperature=0, use_cache=False)
        alone = [model.generate([row], 5, temperature=0)[0] for row in rows]
    assert [row.tolist() for row in together] == [row.tolist() for row in uncached] == [row.tolist() for row in alone]


def test_a_forward_pass_counts_from_its_own_end() -> None:
    model = tiny()
    for ids in (IDS, IDS[:3]):
        with torch.no_grad():
            found = []
            for at in (-1, len(ids) - 1):
                with apply(model, Scale("mlp_out", 0, factor=4, position=at)):
                    found.append(model(torch.tensor([ids])))
        assert torch.equal(*found)


def test_a_prompt_longer_than_the_context_counts_from_the_end_of_what_is_seen() -> None:
    model = tiny(n_ctx=8, init_std=0.6)
    ids = torch.tensor([[*IDS, *IDS]])
    found = []
    for at in (-1, 7):
        for use_cache in (True, False):
            with apply(model, Steer(torch.linspace(-3, 3, 16), 0, position=at)), pytest.warns(UserWarning):
                found.append(model.generate(ids, 4, temperature=0, use_cache=use_cache).tolist())
    assert found == found[:1] * 4


@pytest.mark.parametrize("position", [-7, [0, -7], np.int16(-7)])
@pytest.mark.parametrize("use_cache", [True, False])
def test_before_the_prompt_is_refused(position: Any, use_cache: bool) -> None:
    model = tiny()
    with (
        pytest.raises(ValueError, match="Position -7 is outside the prompt of 6 tokens"),
        apply(model, Ablate("head", position=position)),
    ):
        model.generate(torch.tensor([IDS]), 3, use_cache=use_cache)
    assert model.watch.prompt_length is None


@pytest.mark.parametrize("position", [1.0, True, "1", [0, 1.5], np.array([0.0]), np.array([[0]]), torch.tensor([True])])
def test_what_is_no_position_is_refused(position: Any) -> None:
    model = tiny()
    with pytest.raises(ValueError, match="must be a whole number"):
        intervention_effect(model, IDS, Ablate("head", position=position))


def test_slices_are_named_as_they_are_written() -> None:
    assert Ablate("head", 0, position=slice(-2, None)).describe().endswith("position -2:")
    assert Ablate("head", 0, position=np.array([1, 2])).describe().endswith("position 1, 2")
    assert "from ::2 to all" in KnockOut(key=slice(None, None, 2)).describe()
