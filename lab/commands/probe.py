"""residlab probe: at which layer can a property of a token be read off its activations?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from lab.commands.writing import (
    check_range,
    check_seed,
    check_writable,
    print_table,
    progress_line,
    write_html,
    write_json,
)


@dataclass(frozen=True)
class Probe:
    """Fit a linear probe at every layer and compare it with a control; documents are kept whole."""

    model: tyro.conf.Positional[str]
    """A run (runs/a), one of its checkpoints (runs/a@500, runs/a@best), or a folder with a model."""
    labels: str
    """stories:pos (or role, entity, sex, referent, quoted), python:token, or conllu:FILE."""
    json: Path | None = None
    """Write the result to a JSON file."""
    html: Path | None = None
    """Write a page with the figure, which needs no network to be looked at."""
    site: Literal["resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "head", "neuron"] = "resid_post"
    """Which activations are read."""
    examples: int = 12_000
    """Labelled tokens at most."""
    control: Literal["shuffled", "token"] = "shuffled"
    """Labels permuted over tokens, or one random label for each vocabulary entry."""
    seed: int = 0
    """Seed of the split, the control and the interval."""


def probe(options: Probe) -> int:
    """Print the table, or write the files that were asked for."""
    check_writable(options.json, options.html)
    check_seed(options.seed)
    check_range("--examples", options.examples, 1)
    from lab.analysis import fit_probes, read_labels
    from lab.commands.sample import model_with_text

    model = model_with_text(options.model)
    labels = read_labels(options.labels, model.tokenizer)
    found = fit_probes(
        model,
        labels,
        site=options.site,
        examples=options.examples,
        control=options.control,
        seed=options.seed,
        progress=progress_line("probe"),
    )
    if options.json is not None:
        write_json(options.json, found)
    if options.html is not None:
        from lab.plots import probe_curve

        write_html(options.html, {f"Probes: {labels.name}": probe_curve(found)}, title=options.model)
    if options.json is None and options.html is None:
        rows = [
            [
                name,
                f"{found.accuracy[row]:.4f}",
                f"{found.interval[row, 0]:.3f} to {found.interval[row, 1]:.3f}",
                f"{found.control[row]:.4f}",
                f"{found.selectivity[row]:+.4f}",
            ]
            for row, name in enumerate(found.rows)
        ]
        if labels.skipped:
            print(f"{labels.skipped} documents hold words that the tokenizer does not know and were left out.")
        n_train, n_valid, n_test = found.examples
        title = (
            f"{labels.name} at {options.site}: {len(labels.classes)} classes, {n_train} / {n_valid} / {n_test} tokens "
        )
        title += f"to train, choose and test on; the commonest class alone {found.majority:.4f}"
        print_table(title, ["after", ">accuracy", ">95 %", f">control ({found.control_kind})", ">selectivity"], rows)
    return 0
