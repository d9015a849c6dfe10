"""residlab dynamics: one measure at every checkpoint of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from lab.commands.writing import check_writable, print_table, progress_line, write_html, write_json

SHOWN = 6


@dataclass(frozen=True)
class Dynamics:
    """Take a measure at every checkpoint of a run: when does a head or a probe begin to work?"""

    run: tyro.conf.Positional[str]
    """A run: its folder or its id."""
    measure: str = "induction"
    """induction, previous_token, duplicate_token, first_token, entropy, or probe:LABELS (probe:stories:pos)."""
    json: Path | None = None
    """Write the result to a JSON file."""
    html: Path | None = None
    """Write a page with the figure, which needs no network to be looked at."""


def dynamics(options: Dynamics) -> int:
    """Print the table, or write the files that were asked for."""
    check_writable(options.json, options.html)
    from lab.analysis import checkpoint_dynamics

    film = checkpoint_dynamics(options.run, options.measure, progress=progress_line("checkpoint"))
    if options.json is not None:
        write_json(options.json, film)
    if options.html is not None:
        from lab.plots import dynamics_curves

        write_html(options.html, {film.measure: dynamics_curves(film)}, title=options.run)
    if options.json is None and options.html is None:
        order = np.argsort(-np.nan_to_num(film.flat[-1]), kind="stable")[:SHOWN]
        rows = [[str(step), *(f"{film.flat[at, i]:.3f}" for i in order)] for at, step in enumerate(film.steps)]
        columns = [">step", *(f">{film.labels[i]}" for i in order)]
        print_table(f"{film.measure} through training of {film.run}, the largest at its end", columns, rows)
    return 0
