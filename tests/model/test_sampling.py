"""The filters keep what transformers keeps, break ties toward the lowest id, and refuse impossible settings."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from model.generation import (
    SamplingConfig,
    SamplingError,
    apply_min_p,
    apply_repetition_penalty,
    apply_temperature,
    apply_top_k,
    apply_top_p,
    filtered_logits,
    seen_tokens,
)
from tests.model.variants import tiny

V = 65
seeds = st.integers(0, 10_000)


def logits_of(seed: int, batch: int = 3, scale: float = 3.0) -> Tensor:
    return torch.randn(batch, V, generator=torch.Generator().manual_seed(seed)) * scale


def kept(logits: Tensor) -> list[int]:
    """Ids of the first row that may be drawn."""
    return torch.isfinite(logits[0]).nonzero()[:, 0].tolist()


# ---- as transformers


@settings(deadline=None, max_examples=60)
@given(seeds, st.floats(0.05, 5), st.integers(1, 80), st.floats(0.01, 1), st.floats(0, 1), st.floats(0.2, 3))
def test_every_filter_and_their_order_are_transformers(
    seed: int, temperature: float, k: int, p: float, min_p: float, penalty: float
) -> None:
    logits = logits_of(seed)
    tokens = torch.randint(V, (3, 20), generator=torch.Generator().manual_seed(seed))
    seen = seen_tokens(tokens, V)
    ours = {
        "penalty": apply_repetition_penalty(logits, seen, penalty),
        "temperature": apply_temperature(logits, temperature),
        "top_k": apply_top_k(logits, k),
        "top_p": apply_top_p(logits, p),
        "min_p": apply_min_p(logits, min_p),
    }
    theirs: dict[str, Any] = {
        "penalty": RepetitionPenaltyLogitsProcessor(penalty),
        "temperature": TemperatureLogitsWarper(temperature),
        "top_k": TopKLogitsWarper(k),
        "top_p": TopPLogitsWarper(p),
        "min_p": MinPLogitsWarper(min_p),
    }
    for name, filtered in ours.items():
        torch.testing.assert_close(filtered, theirs[name](tokens, logits), rtol=0, atol=0, msg=name)
    together = filtered_logits(logits, SamplingConfig(temperature, k, p, min_p, penalty), seen)
    assert torch.equal(together, LogitsProcessorList(theirs.values())(tokens, logits))


def test_the_penalty_divides_positive_and_multiplies_negative_logits_once() -> None:
    logits = torch.tensor([[2.0, -2.0, 0.0, 4.0]])
    seen = seen_tokens(torch.tensor([[0, 1, 0, 0]]), 4)
    assert apply_repetition_penalty(logits, seen, 2.0).tolist() == [[1.0, -4.0, 0.0, 4.0]]


def test_padding_is_not_seen() -> None:
    tokens = torch.tensor([[0, 0, 5], [1, 2, 3]])
    mask = torch.tensor([[0, 0, 1], [1, 1, 1]])
    assert seen_tokens(tokens, 7, mask).nonzero().tolist() == [[0, 5], [1, 1], [1, 2], [1, 3]]


# ---- worked examples and ties


def test_top_p_worked_example() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    for p, ids in ((0.9, [0, 1, 2]), (0.79, [0, 1]), (0.81, [0, 1, 2]), (0.4, [0]), (1e-9, [0]), (1, [0, 1, 2, 3])):
        assert kept(apply_top_p(logits, p)) == ids


def test_ties_go_to_the_lowest_ids() -> None:
    tied = torch.tensor([[2.0, 2.0, 1.0, 0.0]])
    assert kept(apply_top_k(tied, 1)) == [0]
    flat = torch.zeros(1, 8)
    assert kept(apply_top_k(flat, 3)) == [0, 1, 2]
    assert kept(apply_top_p(flat, 0.3)) == [0, 1, 2]  # three eighths are the first to reach 0.3
    assert kept(filtered_logits(tied, SamplingConfig(temperature=0))) == [0]
    mixed = torch.tensor([[1.0, 3.0, 1.0, 1.0, 2.0]])
    assert kept(apply_top_k(mixed, 3)) == [0, 1, 4]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=12), st.integers(1, 15))
def test_top_k_keeps_exactly_k_whatever_is_tied(values: list[int], k: int) -> None:
    logits = torch.tensor([values], dtype=torch.float32)
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert kept(apply_top_k(logits, k)) == sorted(order[:k])


@settings(deadline=None, max_examples=60)
@given(seeds, st.floats(0.001, 1))
def test_top_p_is_the_fewest_tokens_that_reach_p(seed: int, p: float) -> None:
    logits = logits_of(seed, batch=1).double()
    probabilities = logits.softmax(-1)[0]
    ids = kept(apply_top_p(logits, p))
    mass = probabilities[ids].sum().item()
    assert mass >= p - 1e-9
    assert len(ids) == 1 or mass - probabilities[ids].min().item() < p + 1e-9
    rest = [i for i in range(V) if i not in ids]
    assert not rest or probabilities[ids].min() >= probabilities[rest].max()


def test_a_k_beyond_the_vocabulary_filters_nothing() -> None:
    logits = logits_of(0)
    for k in (V, 200, 10**9):
        assert torch.equal(apply_top_k(logits, k), logits)


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-6])
def test_a_tiny_temperature_is_greedy_and_does_not_overflow(temperature: float) -> None:
    logits = logits_of(0)
    probabilities = apply_temperature(logits, temperature).softmax(-1)
    assert torch.equal(probabilities.argmax(-1), logits.argmax(-1))
    assert probabilities.amax(-1).tolist() == [1, 1, 1]


def test_filters_leave_what_they_were_given() -> None:
    logits = logits_of(0)
    before = logits.clone()
    filtered_logits(logits, SamplingConfig(0.5, 9, 0.5, 0.1, 1.3), torch.ones(3, V, dtype=torch.bool))
    assert torch.equal(logits, before)


def test_the_penalty_without_what_was_seen_is_an_error() -> None:
    with pytest.raises(ValueError, match="seen"):
        filtered_logits(logits_of(0), SamplingConfig(repetition_penalty=1.1))


# ---- settings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("temperature", value) for value in (-1, -1e-9, math.nan, math.inf, "hot", None, True)),
        *(("top_k", value) for value in (0, -1, 2.5, math.nan, "20", True)),
        *(("top_p", value) for value in (0, -0.1, 1.1, math.nan, "0.9", True)),
        *(("min_p", value) for value in (-0.1, 1.1, math.nan, "0.1", True)),
        *(("repetition_penalty", value) for value in (0, -1, math.nan, math.inf, None, True)),
    ],
)
def test_impossible_settings_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(SamplingError) as error:
        SamplingConfig(**{field: value})
    assert error.value.fields == (field,)
    assert f"{field} is {value!r}" in str(error.value)


def test_all_problems_are_shown_at_once() -> None:
    problems = SamplingConfig.problems({"temperature": -1, "top_p": 0, "top_k": 5, "topk": 3})
    assert [field for field, _ in problems] == ["topk", "temperature", "top_p"]
    assert SamplingConfig.problems({"temperature": 0, "top_p": 1, "min_p": 0}) == []


@settings(max_examples=50)
@given(st.floats(0, 100), st.integers(1, 10**6), st.floats(0, 1, exclude_min=True), st.floats(0, 1))
def test_possible_settings_are_taken(temperature: float, k: int, p: float, min_p: float) -> None:
    assert SamplingConfig(temperature, k, p, min_p).is_greedy == (temperature == 0)


def test_settings_need_no_torch() -> None:
    code = "import sys; from model.sampling import SamplingConfig; SamplingConfig(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the whole surface of settings -------------------------------------------------------------------------------

EXTREMES = st.sampled_from([5e-324, 1e-310, 1e-45, 1e-38, 1e-30, 1e-3, 1.0, 1e3, 1e30, 3.4e38, 1e300, 1.79e308])
above_0 = st.one_of(EXTREMES, st.floats(0, exclude_min=True, allow_infinity=False, allow_subnormal=True))
shares = st.one_of(st.sampled_from([5e-324, 1e-20, 1.0]), st.floats(0, 1, exclude_min=True, allow_subnormal=True))
surface = st.builds(
    SamplingConfig,
    temperature=st.one_of(st.just(0.0), above_0),
    top_k=st.one_of(st.none(), st.sampled_from([1, V - 1, V, 10**30]), st.integers(1, V)),
    top_p=st.one_of(st.none(), shares),
    min_p=st.one_of(st.none(), st.just(0.0), shares),
    repetition_penalty=above_0,
)


@settings(max_examples=400, deadline=None)
@given(surface, seeds, st.sampled_from([1e-20, 1.0, 30.0, 1e4]), st.sampled_from([torch.float32, torch.float64]))
def test_every_setting_leaves_a_distribution(
    config: SamplingConfig, seed: int, scale: float, dtype: torch.dtype
) -> None:
    logits = logits_of(seed, scale=scale).to(dtype)
    logits[:, 60:] = -math.inf  # ids that the tokenizer does not know
    logits[0, 3] = logits[0, 5] = 0.0
    seen = logits_of(seed + 1) > 0
    left = filtered_logits(logits, config, seen)
    assert left.shape == logits.shape and left.dtype == dtype
    assert not left.isnan().any() and not (left == math.inf).any()
    probabilities = left.softmax(-1, dtype=torch.float64)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(3, dtype=torch.float64))
    assert not probabilities[:, 60:].any()
    if config.top_k is not None or config.is_greedy:
        assert (left.isfinite().sum(-1) <= (1 if config.is_greedy else min(config.top_k, V))).all()
    if config.temperature > 1:  # may make them all alike
        return
    penalised = apply_repetition_penalty(logits, seen, config.repetition_penalty)
    likeliest = penalised.argmax(-1, keepdim=True)
    assert (probabilities.gather(-1, likeliest) >= probabilities.amax(-1, keepdim=True)).all()


@settings(max_examples=150, deadline=None)
@given(surface, st.integers(0, 3), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_every_setting_generates_tokens_of_the_vocabulary(
    config: SamplingConfig, seed: int, dtype: torch.dtype
) -> None:
    model = tiny(init_std=2.0).to(dtype)
    model.tokenizer = SimpleNamespace(vocab_size=20, bos_id=None, decode=str)  # 3 rows of padding
    options = vars(config)
    ids = model.generate([[3, 1, 4], [22, 5]], 5, seed=seed, **options)
    for row, start in zip(ids, (3, 2), strict=True):
        assert all(0 <= token < 20 for token in row[start:].tolist())
    steps = list(model.stream([3, 1, 4], 3, seed=seed, **options))
    assert all(0 < step.sampled_probability <= 1 + 1e-6 for step in steps)


@pytest.mark.parametrize("penalty", [5e-324, 1e-45, 1e-38, 1e38, 1.79e308])
def test_a_penalty_at_its_limit_orders_as_it_should(penalty: float) -> None:
    """So small, a seen token that the model likes at all wins; so large, it loses to any unseen one it would beat."""
    logits = torch.tensor([[2.0, 1.0, -1.0, 0.5]])
    seen = torch.tensor([[False, True, True, False]])
    found = apply_repetition_penalty(logits, seen, penalty)
    assert found.isfinite().all()
    assert found.argmax() == (1 if penalty < 1 else 0)
    assert (found[0, 2] < found[0, 3]) and (found[0, 2].abs() < 1e-9 if penalty < 1 else found[0, 2] < -1e9)


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, -5e-324, True, "1", 1j, [1], 10**400])
def test_every_odd_value_is_one_sentence_or_fine(name: str, value: Any) -> None:
    if name == "top_k" and value == 10**400:
        assert SamplingConfig(top_k=value).top_k == value
        return
    with pytest.raises(SamplingError, match=f"^{name} is .*; it must be") as refused:
        SamplingConfig(**{name: value})
    assert refused.value.fields == (name,)
    assert len(str(refused.value)) < 1000
