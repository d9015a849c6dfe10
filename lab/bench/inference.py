"""Forward passes, generation and caching, timed against the references over the same weights."""

from __future__ import annotations

import gc
import math
import multiprocessing
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lab.bench.references import bridge, plain_network, to_transformers
from lab.bench.timing import Result, Seconds, agree, compare, comparison, peak_bytes, reset_peak, seconds_of
from model.config import GPTConfig

if TYPE_CHECKING:
    import torch

SIZES: dict[str, dict[str, Any]] = {
    "tiny": dict(d_vocab=65, n_ctx=64, d_model=32, n_layers=2, n_heads=2),
    "0.8M": dict(d_vocab=65, n_ctx=256, d_model=128, n_layers=4, n_heads=4),
    "3.2M": dict(d_vocab=65, n_ctx=128, d_model=256, n_layers=4, n_heads=4),
    "124M": dict(),
}
"""GPT-2 shapes (biases, learned positions, gelu_new), which is what the references can hold."""


def hooks(*, threads: int = 1, rounds: int = 15, sizes: Sequence[str] = ("0.8M", "3.2M")) -> Result:
    """Forward passes of an unwatched GPT against ``plain_network`` over the same weights."""
    import torch

    from model.gpt import GPT

    torch.set_num_threads(threads)
    results: Result = {}
    for size in sizes:
        model = GPT(GPTConfig(**SIZES[size])).eval()
        tokens = _random_tokens(model.config, batch=8, length=min(128, model.config.n_ctx))
        ours, plain = partial(model, tokens), partial(plain_network(model), tokens)
        with torch.no_grad():
            difference = agree(ours(), plain(), f"hooks {size}")
            # Half a second or so a round: long enough that a scheduler's slice does not decide it
            repeats = max(1, math.ceil(0.4 / seconds_of(plain).wall))
            timing = compare(ours, plain, rounds=rounds, repeats=repeats)
        results[size] = timing.as_result() | {
            "batch": 8,
            "n_tokens": tokens.shape[1],
            "largest_difference": difference,
        }
    return results


def generation(*, threads: int = 1, rounds: int = 5, sizes: Sequence[str] = ("0.8M", "124M")) -> Result:
    """Greedy tokens with the cache, batch 1, in fp32 and bf16, against transformers' ``generate``."""
    import torch

    from model.gpt import GPT

    torch.set_num_threads(threads)
    results: Result = {}
    for size in sizes:
        new_tokens = {"tiny": 16, "124M": 24}.get(size, 128)
        for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            # Weights of unit gain, so that greedy tokens differ from one another and a tie does not decide
            model = GPT(GPTConfig(**SIZES[size], init_std=0.08)).eval()
            theirs = to_transformers(model)
            prompt = _random_tokens(model.config, batch=1, length=16)
            with torch.no_grad():
                agree(model(prompt), theirs(prompt).logits, f"generation {size}", tolerance=1e-3)
                model, theirs = model.to(dtype), theirs.to(dtype)

                ours_write = partial(model.generate, prompt, max_new_tokens=new_tokens, temperature=0)
                they_write = partial(
                    theirs.generate,
                    prompt,
                    attention_mask=torch.ones_like(prompt),
                    max_new_tokens=new_tokens,
                    do_sample=False,
                    use_cache=True,
                    pad_token_id=0,
                )
                same = _same_share(ours_write(), they_write())
                if precision == "fp32" and same < 1:
                    raise RuntimeError(f"generation {size}: {same:.0%} of the greedy tokens agree; nothing to compare.")
                timing = compare(ours_write, they_write, rounds=rounds)
            results[f"{size} {precision}"] = timing.as_result() | {
                "new_tokens": new_tokens,
                "tokens_per_second": round(new_tokens / statistics.median(timing.ours), 1),
                "same_tokens": round(same, 3),
            }
    return results


def _same_share(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    length = min(ours.shape[-1], theirs.shape[-1])
    return (ours[..., :length] == theirs[..., :length]).float().mean().item()


def cache(*, threads: int = 1, rounds: int = 5, size: str = "124M", batch: int = 1, n_tokens: int = 256) -> Result:
    """A full ``run_with_cache``, and a forward pass alone, against the bridge; each side in a process of its own.

    Each process prepares its side and then waits for its turn, so that the two are timed in turns here too.
    time_ratio, memory_ratio: of the cache, in seconds and in peak memory added; forward_ratio: of the plain pass.
    """
    settings = {"threads": threads, "rounds": rounds, "size": size, "batch": batch, "n_tokens": n_tokens}
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as ours_pool, context.Pool(1) as bridge_pool:
        pools = {"ours": ours_pool, "bridge": bridge_pool}
        sides: dict[str, Result] = {side: pool.apply(_prepare, (side, settings)) for side, pool in pools.items()}
        ours, bridge = sides["ours"], sides["bridge"]
        difference = abs(ours["checksum"] - bridge["checksum"])
        if not difference <= 1e-3 * max(1.0, abs(bridge["checksum"])):
            raise RuntimeError(
                f"cache {size}: the logits of the two sides differ (mean square off by {difference:.2e})."
            )
        turns: dict[str, list[tuple[Seconds, Seconds]]] = {"ours": [], "bridge": []}
        for index in range(rounds):
            for side in list(pools) if index % 2 == 0 else list(pools)[::-1]:
                turns[side].append(pools[side].apply(_one_round))
    cached, plain = (
        comparison([turn[part] for turn in turns["ours"]], [turn[part] for turn in turns["bridge"]]) for part in (0, 1)
    )
    memory = None
    if ours["peak_bytes"] and bridge["peak_bytes"]:
        memory = round(ours["peak_bytes"] / bridge["peak_bytes"], 4)
    forward = {f"forward_{name}": value for name, value in plain.as_result().items() if "ratio" in name}
    forward["forward_ratio"] = forward.pop("forward_time_ratio")
    return settings | cached.as_result() | {"memory_ratio": memory} | forward | sides


_calls: list[Callable[[], Any]] = []
"""In a process of ``cache``: the two things that its side times, with a cache and without."""


def _prepare(side: str, settings: Result) -> Result:
    """Build a side, take its peak of memory, and leave it ready for ``_one_round``."""
    import torch

    from model.gpt import GPT

    torch.set_num_threads(settings["threads"])
    model: Any = GPT(GPTConfig(**SIZES[settings["size"]])).eval()
    config = model.config
    if side == "bridge":
        model = bridge(model)
    tokens = _random_tokens(config, settings["batch"], min(settings["n_tokens"], config.n_ctx))
    torch.set_grad_enabled(False)
    model(tokens[:, :1])
    gc.collect()
    before = reset_peak()
    logits, kept = model.run_with_cache(tokens)
    peak = peak_bytes() - before if before else None
    _calls[:] = [partial(model.run_with_cache, tokens), partial(model, tokens)]
    return {"peak_bytes": peak, "entries": len(kept), "checksum": logits.double().square().mean().item()}


def _one_round() -> tuple[Seconds, Seconds]:
    cached, plain = (seconds_of(call) for call in _calls)
    return cached, plain


def _random_tokens(config: GPTConfig, batch: int, length: int) -> torch.Tensor:
    import torch

    generator = torch.Generator().manual_seed(0)
    return torch.randint(config.d_vocab, (batch, length), generator=generator)
