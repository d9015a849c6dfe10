"""Patching on GPT-2's shape: TransformerLens' numbers, several times faster; attribution for a few forward passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lab.analysis import LogitDifference, activation_patching, attribution_patching
from model import GPT, GPTConfig

METRIC = LogitDifference(answer=5, wrong=9)
SAMPLE = 10
"""Patches of each grid that TransformerLens runs; each costs it one forward pass, so that its time is in proportion."""


def processor_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time, which other programs on the machine do not lengthen much, and the result."""
    begun = time.process_time()
    result = call()
    return time.process_time() - begun, result


@pytest.fixture(scope="module")
def pair() -> tuple[GPT, torch.Tensor, torch.Tensor]:
    model = GPT(GPTConfig(init_std=0.05)).eval()
    clean = torch.randint(0, 50257, (1, 16), generator=torch.Generator().manual_seed(0))
    corrupt = clean.clone()
    corrupt[0, 6] = 77  # as the second name of a giving sentence, among 16 tokens
    return model, clean, corrupt


@pytest.mark.slow
def test_grids_are_transformer_lens_numbers_at_six_times_its_speed(pair) -> None:
    import pandas
    from transformer_lens import patching

    from lab.bench.references import bridge

    model, clean, corrupt = pair
    theirs = bridge(model)
    setters = {
        "resid_pre": (patching.layer_pos_patch_setter, "resid_pre", ("layer", "pos")),
        "head": (patching.layer_head_vector_patch_setter, "z", ("layer", "head")),
    }

    def read(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, METRIC.answer] - logits[0, -1, METRIC.wrong]

    with torch.no_grad():
        _, cache = theirs.run_with_cache(clean)
        for site, (setter, activation, axes) in setters.items():
            ours, grid = processor_seconds(
                lambda site=site: activation_patching(model, clean, corrupt, METRIC, site=site)
            )
            chosen = np.random.default_rng(0).choice(grid.values.size, SAMPLE, replace=False)
            index = np.stack(np.unravel_index(chosen, grid.values.shape), 1)
            table = pandas.DataFrame(index, columns=list(axes))

            def run(setter=setter, activation=activation, table=table) -> torch.Tensor:
                return patching.generic_activation_patch(
                    theirs, corrupt, cache, read, setter, activation, index_df=table
                )

            seconds, values = processor_seconds(run)
            assert np.abs(grid.values[tuple(index.T)] - values.numpy()).max() < 1e-4
            assert seconds / SAMPLE * grid.values.size / ours > 6, site


@pytest.mark.slow
def test_attribution_takes_no_longer_than_six_forward_passes(pair) -> None:
    model, clean, corrupt = pair
    exact = activation_patching(model, clean, corrupt, METRIC, site="head", layers=[0])
    estimate = attribution_patching(model, clean, corrupt, METRIC, site="head", layers=[0], exact=exact)
    assert estimate.correlation > 0.8

    def passes() -> None:
        with torch.no_grad():
            for _ in range(6):
                model(corrupt)

    times = [processor_seconds(passes)[0] for _ in range(3)]
    ours = [
        processor_seconds(lambda: attribution_patching(model, clean, corrupt, METRIC, site="head"))[0] for _ in range(3)
    ]
    assert min(ours) < min(times)
