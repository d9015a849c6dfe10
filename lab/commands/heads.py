"""residlab heads: what kind of head is each, by its attention on repeated random tokens and by its weights?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from lab.commands.writing import check_seed, check_writable, print_table, write_html, write_json

COLUMNS = ("induction", "previous_token", "duplicate_token", "first_token", "entropy")


@dataclass(frozen=True)
class Heads:
    """Score every head: induction, previous token, duplicate token, first token, entropy, and copying."""

    model: tyro.conf.Positional[str]
    """A run (runs/a), one of its checkpoints (runs/a@500, runs/a@best), or a folder with a model."""
    prompt: str | None = None
    """Measure on this text instead of repeated random tokens."""
    json: Path | None = None
    """Write a JSON file with the keys scores and weights."""
    html: Path | None = None
    """Write a page with the figures, which needs no network to be looked at."""
    seed: int = 0
    """Seed of the random tokens."""


def heads(options: Heads) -> int:
    """Print the table, or write the files that were asked for."""
    check_writable(options.json, options.html)
    check_seed(options.seed)
    from lab.analysis import head_scores, head_weights
    from lab.commands.sample import model_with_text, read_prompt
    from lab.models import open_model

    model = open_model(options.model) if options.prompt is None else model_with_text(options.model)
    if options.prompt is not None and len(read_prompt(model, options.prompt, "error")) < 2:
        raise ValueError("Head scores need a prompt of at least 2 tokens: the first has only itself to look at.")
    scores = head_scores(model, options.prompt, seed=options.seed)
    weights = head_weights(model)
    if options.json is not None:
        write_json(options.json, {"scores": scores.to_dict(), "weights": weights.to_dict()})
    if options.html is not None:
        from lab import plots

        names = {"Induction": "induction", "Previous token": "previous_token"}
        figures = {title: plots.head_score_map(scores, name) for title, name in names.items()}
        figures["Copying"] = plots.copying_map(weights)
        if model.config.n_layers > 1:
            figures |= {f"{kind.upper()}-composition": plots.composition_map(weights, kind) for kind in ("q", "k", "v")}
        write_html(options.html, figures, title=options.model)
    if options.json is None and options.html is None:
        rows = []
        for layer, head in np.ndindex(*scores.induction.shape):
            values = [getattr(scores, name)[layer, head] for name in COLUMNS]
            rows.append([f"L{layer}H{head}", *map(_number, values), f"{weights.copying[layer, head]:+.3f}"])
        rows.append(["chance", *(_number(scores.chance[name]) for name in COLUMNS), ""])
        where = "a prompt" if options.prompt is not None else f"random tokens, {scores.period} of them twice over"
        columns = ["head", *(f">{name.replace('_', ' ')}" for name in COLUMNS), ">copying"]
        if missing := [name for name in COLUMNS if scores.queries[name] == 0]:
            print(f"No token of the prompt occurs again in a way to measure {' and '.join(missing)} by: -")
        print_table(f"Heads of {options.model} on {where}", columns, rows)
    return 0


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"
