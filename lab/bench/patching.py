"""A grid of activation patches against TransformerLens' ``patching``, and what its estimate costs in forward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.bench.inference import SIZES
from lab.bench.references import bridge
from lab.bench.timing import Comparison, Result, agree, compare
from model.config import GPTConfig

if TYPE_CHECKING:
    import torch

    from lab.analysis import PatchingGrid
    from model.gpt import GPT

GRIDS = ("resid_pre", "head")
"""The stream before each layer at each position, and what each head writes."""
PASSES = 6
"""Forward passes in one round of what the estimate is timed against."""


def patching(
    *,
    threads: int = 1,
    rounds: int = 3,
    size: str = "124M",
    n_tokens: int = 16,
    sites: Sequence[str] = GRIDS,
    patches: int | None = None,
) -> Result:
    """Whole grids over the same random weights, ours and TransformerLens', then attribution patching's time.

    patches: how many of a grid's patches TransformerLens runs (drawn by chance, compared with ours in value); each
    costs it one forward pass, so its time is taken in proportion. None: every one.
    A key a site, with the ratio of times and the largest difference; "attribution": a key a site with its time in
    forward passes of the model (by the clock and by the CPU) and its correlation with the exact grid.
    """
    import torch

    from lab.analysis import LogitDifference, activation_patching, attribution_patching
    from model.gpt import GPT

    torch.set_num_threads(threads)
    # Weights large enough that patches of every layer move the metric by more than rounding
    model = GPT(GPTConfig(**SIZES[size], init_std=0.05)).eval()
    clean, corrupt = _prompts(model.config, n_tokens)
    metric = LogitDifference(answer=5, wrong=9)
    theirs, estimates, results = bridge(model), {}, {}
    for site in sites:
        ours: Callable[[], PatchingGrid] = partial(activation_patching, model, clean, corrupt, metric, site=site)
        grid = ours()
        chosen = _chosen(grid, patches)
        run = _theirs(theirs, clean, corrupt, metric, site, chosen)
        difference = agree(torch.as_tensor(grid.values[tuple(chosen.T)]), run(), f"patching {site} {size}")
        timing = _scaled(compare(ours, run, rounds=rounds), grid.values.size / len(chosen))
        results[site] = timing.as_result() | {
            "patches": grid.values.size,
            "patches_of_the_reference": len(chosen),
            "n_tokens": n_tokens,
            "largest_difference": difference,
            "largest_effect": float(np.abs(grid.effect).max()),
        }
        estimate = partial(attribution_patching, model, clean, corrupt, metric, site=site)
        estimates[site] = _in_passes(estimate, model, corrupt, rounds) | {
            "correlation": round(estimate(exact=grid).correlation, 4)
        }
    return {"size": size} | results | {"attribution": estimates}


def _prompts(config: GPTConfig, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens, and the same with another one a third of the way: where a giving sentence has its second name."""
    import torch

    clean = torch.randint(config.d_vocab, (1, length), generator=torch.Generator().manual_seed(0))
    corrupt = clean.clone()
    at = length * 2 // 5
    corrupt[0, at] = (clean[0, at] + 1) % config.d_vocab
    return clean, corrupt


def _chosen(grid: PatchingGrid, patches: int | None) -> np.ndarray:
    """[patch, axis] index of the patches that the reference runs."""
    numbers = np.arange(grid.values.size)
    if patches is not None and patches < len(numbers):
        numbers = np.sort(np.random.default_rng(0).choice(numbers, patches, replace=False))
    return np.stack(np.unravel_index(numbers, grid.values.shape), 1)


def _theirs(
    theirs: Any, clean: torch.Tensor, corrupt: torch.Tensor, metric: Any, site: str, chosen: np.ndarray
) -> Callable[[], torch.Tensor]:
    """The call that patches each of ``chosen`` by TransformerLens' way, one forward pass each, [patch] values."""
    import pandas
    import torch
    from transformer_lens import patching as reference

    setter, activation, axes = {
        "resid_pre": (reference.layer_pos_patch_setter, "resid_pre", ("layer", "pos")),
        "head": (reference.layer_head_vector_patch_setter, "z", ("layer", "head")),
    }[site]
    table = pandas.DataFrame(chosen, columns=list(axes))

    def read(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, metric.answer] - logits[0, -1, metric.wrong]

    with torch.no_grad():
        _, cache = theirs.run_with_cache(clean)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return reference.generic_activation_patch(theirs, corrupt, cache, read, setter, activation, index_df=table)

    return run


def _scaled(timing: Comparison, factor: float) -> Comparison:
    """The same with the reference's times lengthened in proportion to what it left out."""
    return replace(
        timing,
        reference=tuple(seconds * factor for seconds in timing.reference),
        reference_cpu=tuple(seconds * factor for seconds in timing.reference_cpu),
    )


def _in_passes(estimate: Callable[[], Any], model: GPT, tokens: torch.Tensor, rounds: int) -> Result:
    """The time of a call in forward passes of the model over ``tokens``."""
    import torch

    def passes() -> None:
        with torch.no_grad():
            for _ in range(PASSES):
                model(tokens)

    timing = compare(estimate, passes, rounds=rounds, repeats=2)
    by_cpu = timing.cpu_time_ratio
    return {
        "forward_passes": round(timing.time_ratio * PASSES, 3),
        "forward_passes_by_cpu": None if by_cpu is None else round(by_cpu * PASSES, 3),
        "seconds": timing.as_result()["seconds"],
    }
