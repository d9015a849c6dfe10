"""residlab bench: ratios against references, as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

What = Literal["training", "hooks", "generation", "cache", "patching"]
ALL: tuple[What, ...] = ("hooks", "generation", "cache", "patching", "training")


@dataclass(frozen=True)
class Bench:
    """Measure speed against a reference on this machine, in this run; prints ratios as JSON.

    training: the fast recipe against nanoGPT's. hooks: an unwatched GPT against the same network without hook
    points. generation: against transformers. cache: run_with_cache against TransformerLens' bridge. patching: grids
    of activation patches against TransformerLens' patching, and attribution patching's time in forward passes.
    """

    what: tyro.conf.Positional[tuple[What, ...]] = ()
    """What to measure; everything when left out."""
    threads: int = 1
    """Threads for both sides."""
    rounds: int | None = None
    """Rounds of the timed comparisons; by default 15 for hooks, 5 for generation and cache, 3 for
    patching."""
    corpus: str = "stories"
    """training: the corpus, a name or a file."""
    preset: str = "nano"
    """training: the model's shape."""
    steps: int = 2000
    """training: steps of both recipes; a short fast run of 15 % of them follows."""
    eval_every: int | None = None
    """training: steps between evaluations; by default the recipes' own."""
    seed: int = 0
    """training: seed of the runs."""
    folder: Path | None = None
    """training: keep the runs here instead of throwing them away."""
    out: Path | None = None
    """Write the JSON here as well."""


def bench(options: Bench) -> int:
    """Print one JSON object: the machine, then a key a measurement."""
    if options.threads < 1:
        raise ValueError(f"--threads is {options.threads}; it must be at least 1.")
    if options.rounds is not None and options.rounds < 1:
        raise ValueError(f"--rounds is {options.rounds}; it must be at least 1.")
    if options.steps < 1:
        raise ValueError(f"--steps is {options.steps}; it must be at least 1.")
    from lab.bench.timing import machine

    results: dict[str, Any] = {"machine": machine(options.threads)}
    for what in options.what or ALL:
        print(f"measuring {what} ...", file=sys.stderr, flush=True)
        results[what] = _measure(what, options)
    text = json.dumps(results, indent=1, allow_nan=False)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


def _measure(what: What, options: Bench) -> dict[str, Any]:
    from lab.bench import inference, patching, training

    if what == "training":
        return training.training(
            corpus=options.corpus,
            preset=options.preset,
            steps=options.steps,
            seed=options.seed,
            threads=options.threads,
            eval_every=options.eval_every,
            folder=options.folder,
        )
    rounds: dict[str, Any] = {} if options.rounds is None else {"rounds": options.rounds}
    if what == "patching":
        return patching.patching(threads=options.threads, **rounds)
    return getattr(inference, what)(threads=options.threads, **rounds)
