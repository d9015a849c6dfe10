"""The measuring instruments: a ratio means something only where both sides compute the same thing."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import torch

from lab.bench import inference, training
from lab.bench.inference import SIZES
from lab.bench.references import bridge, plain_network, to_transformers
from lab.bench.timing import Comparison, agree, compare, machine, peak_bytes, reset_peak
from model.config import GPTConfig
from model.gpt import GPT

TINY = SIZES["tiny"]


@pytest.fixture(scope="module")
def model() -> GPT:
    return GPT(GPTConfig(**TINY, init_std=0.1)).eval()


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.randint(TINY["d_vocab"], (2, 12), generator=torch.Generator().manual_seed(1))


# Timing


def test_compare_tells_slow_from_fast() -> None:
    timing = compare(lambda: time.sleep(0.02), lambda: time.sleep(0.005), rounds=3)
    assert 2 < timing.time_ratio < 8
    assert len(timing.ours) == len(timing.reference) == 3


def test_compare_calls_both_sides_equally_and_takes_turns() -> None:
    calls: list[str] = []
    compare(lambda: calls.append("a"), lambda: calls.append("b"), rounds=2, repeats=2)
    assert calls == ["a", "b", *"aabb", *"bbaa"]  # a warm-up each, then rounds in turn


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    # One round that a busy machine spoiled does not move it; the mean of the times would say 3.
    timing = Comparison(ours=(1.0, 1.0, 7.0), reference=(2.0, 2.0, 2.0))
    result = timing.as_result()
    assert result["time_ratio"] == 0.5
    assert result["speedup"] == 2.0
    assert (result["ratio_low"], result["ratio_high"]) == (0.5, 3.5)


def test_cpu_time_is_told_apart_from_waiting() -> None:
    # A side that sleeps takes the clock's time and next to none of the processor's.
    def busy() -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    timing = compare(lambda: time.sleep(0.1), busy, rounds=3)
    assert timing.cpu_time_ratio is not None
    assert timing.cpu_time_ratio < 0.5
    assert Comparison(ours=(1.0,), reference=(2.0,)).as_result()["cpu_time_ratio"] is None


def test_sides_that_differ_are_not_compared() -> None:
    with pytest.raises(RuntimeError, match=r"differ by 1\.00e\+00"):
        agree(torch.zeros(3), torch.tensor([0.0, 1.0, 0.0]), "x")
    with pytest.raises(RuntimeError, match="nan"):
        agree(torch.zeros(1), torch.tensor([float("nan")]), "x")


def test_peak_memory_sees_what_was_allocated() -> None:
    before = reset_peak()
    if before is None:
        pytest.skip("no /proc/self/clear_refs: this system does not report the peak of memory")
    block = torch.ones(20_000_000)  # 80 MB
    assert 70e6 < peak_bytes() - before < 200e6
    del block


def test_the_machine_is_described_in_plain_values() -> None:
    described = machine(threads=1)
    assert described["threads"] == 1
    assert described["torch"] == torch.__version__
    json.dumps(described)


# The references compute what our model computes


def test_plain_network_equals_the_model(model: GPT, tokens: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(plain_network(model)(tokens), model(tokens), atol=1e-5, rtol=0)


def test_plain_network_without_biases() -> None:
    model = GPT(GPTConfig.preset("nano", n_layers=2)).eval()
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        torch.testing.assert_close(plain_network(model)(tokens), model(tokens), atol=1e-5, rtol=0)


def test_plain_network_refuses_what_it_cannot_hold() -> None:
    model = GPT(GPTConfig(**{**TINY, "normalization_type": "RMS"}))
    with pytest.raises(ValueError, match="normalization_type"):
        plain_network(model)


def test_transformers_twin_equals_the_model(model: GPT, tokens: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(to_transformers(model)(tokens).logits, model(tokens), atol=1e-5, rtol=0)


def test_the_bridge_holds_the_same_weights(model: GPT, tokens: torch.Tensor) -> None:
    with torch.no_grad():
        theirs = bridge(model)
        logits, cache = theirs.run_with_cache(tokens)
        own, own_cache = model.run_with_cache(tokens)
    torch.testing.assert_close(logits, own, atol=1e-5, rtol=0)
    name = "blocks.1.hook_resid_post"
    torch.testing.assert_close(cache[name], own_cache[name], atol=1e-5, rtol=0)


# The measurements


def test_hooks_measures_a_ratio() -> None:
    result = inference.hooks(rounds=2, sizes=["tiny"])["tiny"]
    assert 0.2 < result["time_ratio"] < 5
    assert result["largest_difference"] < 1e-4
    assert result["rounds"] == 2


def test_generation_measures_a_ratio_over_the_same_tokens() -> None:
    results = inference.generation(rounds=1, sizes=["tiny"])
    assert set(results) == {"tiny fp32", "tiny bf16"}
    assert results["tiny fp32"]["same_tokens"] == 1.0
    assert results["tiny fp32"]["speedup"] > 0


@pytest.mark.slow
def test_cache_measures_time_and_memory() -> None:
    result = inference.cache(rounds=1, size="tiny", n_tokens=16)
    assert result["forward_ratio"] > 0
    assert result["time_ratio"] > 0
    assert result["ours"]["entries"] > 20
    json.dumps(result, allow_nan=False)


# Training curves


def row(step: int, seconds: float, val_loss: float) -> dict[str, Any]:
    return {"step": step, "tokens": step * 768, "seconds": seconds, "val_loss": val_loss}


def test_curves_give_the_share_of_time_that_fast_needs() -> None:
    result = training.compare_curves(
        {
            "nanogpt": [row(0, 0, 4.2), row(500, 50, 2.0), row(1000, 100, 1.9)],
            "fast": [row(0, 0, 4.2), row(250, 30, 1.9), row(500, 60, 1.7), row(1000, 120, 1.72)],
            "short": [row(0, 0, 4.2), row(150, 18, 1.89)],
        }
    )
    assert result["target"] == 1.9
    assert (result["reached_by"], result["reached_at_step"]) == ("short", 150)
    assert result["time_ratio"] == 0.18
    assert result["fast"]["best_val_loss"] == 1.7
    assert result["fast"]["best_step"] == 500
    assert result["fast"]["final_val_loss"] == 1.72


def test_a_curve_that_never_gets_there_has_no_ratio() -> None:
    result = training.compare_curves({"nanogpt": [row(10, 5, 1.0)], "fast": [row(10, 1, 1.1)]})
    assert result["time_ratio"] is None
    assert result["reached_by"] is None and result["reached_at_step"] is None


def test_training_runs_both_recipes_on_the_same_terms(tmp_path: Any) -> None:
    text = tmp_path / "abc.txt"
    text.write_text("the cat sat on the mat. a dog ran to the cat.\n" * 200, encoding="utf-8")
    result = training.training(corpus=str(text), preset="nano", steps=6, eval_every=3, folder=tmp_path)
    for recipe in ("nanogpt", "fast"):
        curve = result[recipe]["curve"]
        assert curve[-1]["step"] == 6
        assert curve[-1]["val_loss"] == result[recipe]["final_val_loss"]
        assert (tmp_path / f"{recipe}-s0" / "config.json").is_file()
    assert result["short"]["curve"][-1]["step"] == 1
    tokens = {recipe: result[recipe]["curve"][-1]["tokens"] for recipe in ("nanogpt", "fast")}
    assert tokens["nanogpt"] == tokens["fast"]
    json.dumps(result, allow_nan=False)
