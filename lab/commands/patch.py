"""residlab patch: which activations carry the answer from one prompt into another?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from lab.commands.writing import check_writable, print_table, progress_line, write_html, write_json

if TYPE_CHECKING:
    from lab.analysis import PatchingGrid

SHOWN = 12
Site = Literal[
    "resid_pre",
    "resid_mid",
    "resid_post",
    "attn_out",
    "mlp_out",
    "component",
    "head",
    "q",
    "k",
    "v",
    "pattern",
    "neuron",
]


@dataclass(frozen=True)
class Patch:
    """Patch activations of one prompt into another, one place at a time, and see how far the answer moves.

    Both prompts need the same number of tokens. Prints the strongest places; --json and --html write the whole grid.
    """

    model: tyro.conf.Positional[str]
    """A run (runs/a), one of its checkpoints (runs/a@500, runs/a@best), or a folder with a model."""
    clean: str
    """The prompt whose answer is right."""
    corrupt: str
    """The prompt that differs in what is asked about."""
    answer: str
    """The right next token of the clean prompt, as text or as #ID."""
    wrong: str
    """The right next token of the corrupt prompt, as text or as #ID."""
    site: Site = "resid_pre"
    """What is patched: a stream or output at each position; or heads (what they write, their queries, keys, values,
    where they look) or neurons, one at a time, at all positions."""
    each_position: bool | None = None
    """Patch at one position each, or at all at once; by default streams at each, heads and neurons at all."""
    direction: Literal["denoise", "noise"] = "denoise"
    """denoise: clean activations into the corrupt prompt; noise: the other way round."""
    method: Literal["exact", "attribution", "both"] = "exact"
    """Run every patch, estimate all from one gradient, or both, with their correlation."""
    json: Path | None = None
    """Write the grid to a JSON file."""
    html: Path | None = None
    """Write a page with the figure, which needs no network to be looked at."""


def patch(options: Patch) -> int:
    """Print the strongest patches, or write the files that were asked for."""
    check_writable(options.json, options.html)
    from lab.analysis import LogitDifference, activation_patching, attribution_patching
    from lab.commands.inspect import token_choice
    from lab.commands.sample import model_with_text

    model = model_with_text(options.model)
    answer, wrong = token_choice(model, options.answer), token_choice(model, options.wrong)
    metric = LogitDifference(answer, wrong)  # type: ignore[arg-type]  # neither option can be None
    where = dict(site=options.site, each_position=options.each_position, direction=options.direction)
    prompts = (model, options.clean, options.corrupt, metric)
    exact = None
    if options.method != "attribution":
        exact = activation_patching(*prompts, progress=progress_line("patch"), **where)  # type: ignore[arg-type]
    estimate = None
    if options.method != "exact":
        estimate = attribution_patching(*prompts, exact=exact, **where)  # type: ignore[arg-type]
    grids = {name: grid for name, grid in (("exact", exact), ("attribution", estimate)) if grid is not None}

    if options.json is not None:
        (only,) = grids.values() if len(grids) == 1 else (None,)
        write_json(options.json, only if only is not None else {name: grid.to_dict() for name, grid in grids.items()})
    if options.html is not None:
        from lab.plots import patching_grid

        figures = {name.capitalize(): patching_grid(grid) for name, grid in grids.items()}
        write_html(options.html, figures, title=options.model, note=f"{options.clean} / {options.corrupt}")
    if options.json is None and options.html is None:
        for grid in grids.values():
            _print_grid(grid)
    return 0


def _print_grid(grid: PatchingGrid) -> None:
    from lab.analysis.results import share

    shares = {name: abs(share(effect, grid.clean, grid.corrupt)) for name, effect in grid.top(SHOWN)}
    rows = [[name, f"{effect:+.4f}", "-" if grid.note else f"{shares[name]:.0%}"] for name, effect in grid.top(SHOWN)]
    said = "estimated" if grid.method == "attribution" else "exact"
    title = f"{grid.metric}: {grid.clean:.4f} clean, {grid.corrupt:.4f} corrupt; {said} patches of {grid.site}"
    if grid.correlation == grid.correlation:
        title += f", correlation with the exact grid {grid.correlation:.3f}"
    if grid.note:
        title += f"\n{grid.note}"
    print_table(title, ["patch", ">effect", ">of the difference"], rows)
