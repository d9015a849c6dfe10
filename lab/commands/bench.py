"""residlab bench: ratios against references, as JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from lab.commands.writing import check_range, check_seed, check_writable, write_output

What = Literal["training", "hooks", "generation", "cache", "patching"]
MOST_THREADS = 4096
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
    check_range("--threads", options.threads, 1, MOST_THREADS)
    check_range("--rounds", options.rounds, 1)
    check_range("--steps", options.steps, 1)
    check_range("--eval-every", options.eval_every, 1)
    check_seed(options.seed)
    check_writable(options.out)
    chosen = options.what or ALL
    if "training" in chosen:
        _check_training(options)
    from lab.bench.timing import machine

    results: dict[str, Any] = {"machine": machine(options.threads)}
    for what in chosen:
        print(f"measuring {what} ...", file=sys.stderr, flush=True)
        try:
            results[what] = _measure(what, options)
        except RuntimeError as problem:  # the two sides do not compute the same: there is nothing to compare
            raise ValueError(str(problem)) from problem
    text = json.dumps(results, indent=1, allow_nan=False)
    print(text, flush=True)
    if options.out is not None:
        write_output(options.out, text + "\n", told=sys.stderr)
    return 0


def _check_training(options: Bench) -> None:
    """Refuse what cannot be trained before anything is measured."""
    from lab.bench.training import configurations
    from lab.runs import RunExistsError
    from lab.training import prepare_data

    overrides = {"threads": options.threads}
    if options.eval_every is not None:
        overrides["eval_every"] = options.eval_every
    configs = configurations(options.corpus, options.preset, options.steps, options.seed, overrides)
    for name in configs if options.folder is not None else ():
        path = Path(options.folder or "") / f"{name}-s{options.seed}"
        if os.path.lexists(path):
            raise RunExistsError(f"{path} is there already; name another folder with --folder.")
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        check_writable(options.folder / "runs")
    prepare_data(next(iter(configs.values())))


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
