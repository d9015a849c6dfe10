"""Patching, path patching and composition: where a change reaches the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lab.plots.cells import heatmap
from lab.plots.theme import escaped, number

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import HeadWeights, PatchingGrid, PathPatching

QUANTITIES = {
    "recovered": "share of the difference recovered",
    "effect": "change of the metric",
    "values": "the metric",
}
SHOWN_NEURONS = 48
SITE_NAMES = {
    "head": "head outputs",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "pattern": "attention patterns",
    "neuron": "neurons",
    "component": "attention and MLP outputs",
}


def patching_grid(
    grid: PatchingGrid, quantity: str = "recovered", *, head: int | None = None, template: str = "light"
) -> go.Figure:
    """A patching grid: rows are layers (later ones higher) or components, columns positions or heads.

    quantity: "recovered" (1: the patch alone brings back the other prompt's answer), "effect" or "values". A grid of
    layers, heads and positions shows every head as a row, or one ``head`` of each layer. Of many neurons those that
    move the metric most in some layer are shown. Cells that a cancelled run did not reach carry a mark. Cells can be
    clicked.
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity is {quantity!r}; known are {', '.join(QUANTITIES)}.")
    values, rows = np.asarray(getattr(grid, quantity)), grid.labels()
    units, letter = _shown_units(grid, head), "N" if "neuron" in grid.axes else "H"
    if units is not None:
        values = values[:, units]
        if grid.axes[-1] == "position":
            rows = [f"{row}{letter}{at}" for row in rows for at in units]
            values = values.reshape(len(rows), -1)
    if grid.axes[-1] == "position":
        columns = [_pair(clean, corrupt) for clean, corrupt in zip(grid.clean_texts, grid.corrupt_texts, strict=True)]
        x_title = "position: clean token (/ corrupt token)"
    elif units is not None:
        columns, x_title = [f"{letter}{at}" for at in units], grid.axes[-1]
        if len(units) < grid.values.shape[1]:
            x_title = f"{x_title}: the {len(units)} of {grid.values.shape[1]} that move most"
    else:
        values, columns, x_title = values[:, None], ["all positions"], ""
    what = SITE_NAMES.get(grid.site, grid.site)
    said = "estimated patches" if grid.method == "attribution" else "patches"
    how = "clean into corrupt" if grid.direction == "denoise" else "corrupt into clean"
    compared = (
        "" if not np.isfinite(grid.correlation) else f", correlation with the exact grid {number(grid.correlation, 2)}"
    )

    def hover(row: int, column: int) -> str:
        return f"{rows[row]}, {columns[column]}<br>{QUANTITIES[quantity]} {number(values[row, column])}"

    metric = escaped(grid.metric)
    note = grid.note if quantity == "recovered" else ""
    best = np.unravel_index(np.argmax(np.abs(np.nan_to_num(values))), values.shape)
    return heatmap(
        values,
        x_labels=columns,
        y_labels=rows,
        what=QUANTITIES[quantity],
        x_title=x_title,
        y_title="component" if grid.axes[0] == "component" else "layer",
        title=f"{said.capitalize()} of {what}, {how}: {metric}{compared}{'<br>' * bool(note)}{note}",
        alt=f"{said.capitalize()} of {what}, {how}. {QUANTITIES[quantity].capitalize()} of {metric} for {len(rows)} "
        f"rows and {len(columns)} columns; "
        + (note or f"the largest is {number(values[best])} at {rows[best[0]]}, {columns[best[1]]}.")
        + f" The metric is {number(grid.clean)} on the clean prompt and {number(grid.corrupt)} on the "
        "corrupt one.",
        colours="diverging",
        high=1.0 if quantity == "recovered" else None,
        hover=hover,
        upward=True,
        selectable=True,
        template=template,
    )


def _shown_units(grid: PatchingGrid, head: int | None) -> list[int] | None:
    """The heads or neurons that get a row or column of their own; None for a grid of whole streams."""
    if grid.axes[1:2] not in (("head",), ("neuron",)):
        return None
    count = grid.values.shape[1]
    if "neuron" in grid.axes:
        moves = np.abs(np.nan_to_num(grid.effect)).max(
            axis=tuple(axis for axis in range(grid.values.ndim) if axis != 1)
        )
        return sorted(np.argsort(-moves, kind="stable")[:SHOWN_NEURONS].tolist())
    if head is None or grid.axes[-1] != "position":
        return list(range(count))
    if not 0 <= head < count:
        raise ValueError(f"Head {head} does not exist: give 0 to {count - 1}.")
    return [head]


def _pair(clean: str, corrupt: str) -> str:
    one, other = escaped(clean, 12), escaped(corrupt, 12)
    return one if one == other else f"{one} / {other}"


def path_patching_map(paths: PathPatching, *, template: str = "light") -> go.Figure:
    """Effect of each sender head through its direct path to the receiver; rows are layers, later ones higher."""
    name = ", ".join(paths.receivers)
    return _heads(
        paths.effect,
        what="change of the metric",
        title=f"Direct paths from each head to {name}: {escaped(paths.metric)}",
        masked=~np.isfinite(paths.values),
        template=template,
    )


def copying_map(weights: HeadWeights, *, template: str = "light") -> go.Figure:
    """Copying score of every head, from -1 to 1."""
    return _heads(weights.copying, what="copying score", title="Copying score by weights", high=1.0, template=template)


def _heads(values: np.ndarray, *, what: str, title: str, template: str, **more: Any) -> go.Figure:
    n_layers, n_heads = values.shape
    best = np.unravel_index(np.argmax(np.abs(np.nan_to_num(values))), values.shape)
    return heatmap(
        values,
        x_labels=[f"H{head}" for head in range(n_heads)],
        y_labels=[f"L{layer}" for layer in range(n_layers)],
        what=what,
        x_title="head",
        y_title="layer",
        title=title,
        alt=f"{title} for {n_heads} heads (columns) in {n_layers} layers (rows, later ones higher); the largest is "
        f"{number(values[best])}, L{best[0]}H{best[1]}.",
        colours="diverging",
        hover=lambda layer, head: f"L{layer}H{head}<br>{what} {number(values[layer, head])}",
        upward=True,
        selectable=True,
        template=template,
        **more,
    )


def composition_map(weights: HeadWeights, kind: str = "k", *, template: str = "light") -> go.Figure:
    """How much each head (row) reads, by its query, key or value, what each earlier head (column) writes."""
    if kind not in weights.composition:
        raise ValueError(f"kind is {kind!r}; known are q, k, v.")
    scores = weights.composition[kind]
    n_layers, n_heads = scores.shape[:2]
    names = [f"L{layer}H{head}" for layer in range(n_layers) for head in range(n_heads)]
    values = scores.reshape(len(names), len(names)).T
    what = f"{kind.upper()}-composition"
    return heatmap(
        values,
        x_labels=names,
        y_labels=names,
        what=what,
        x_title="writes",
        y_title="reads",
        title=f"{what} of heads (random matrices: {number(weights.chance, 2)})",
        alt=f"{what} between {len(names)} heads: columns write, rows read; blank where the reader is not later.",
        masked=~np.isfinite(values),
        hover=lambda row, column: f"{names[column]} → {names[row]}<br>{what} {number(values[row, column])}",
        template=template,
    )
