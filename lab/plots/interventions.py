"""Where to intervene: a map of heads and of whole updates, what is done to each, and what each is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.cells import heatmap
from lab.plots.theme import escaped, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

WHOLE = ("attn", "MLP", "stream")
"""Columns after the heads: all that attention adds, all that the MLP adds, the stream after the layer."""


def intervention_map(
    values: np.ndarray,
    signs: Mapping[tuple[int, int], str],
    *,
    what: str,
    title: str,
    x_title: str = "head",
    y_title: str = "layer",
    signed: bool = False,
    most: float | None = None,
    template: str = "light",
) -> go.Figure:
    """One number a head, a row a layer (later ones higher), with columns for the whole updates beside the heads.

    Columns are H0, H1, ..., attn, MLP, stream. values: [layer, head], and the last three columns stay blank; or,
    ``signed``, [layer, head + 3], coloured about zero, NaN in the last three for no value. most: end of the colour
    range. signs: (layer, column) -> what is done there, in a few characters. Each cell's marker carries
    (layer, column) as ``customdata``.
    """
    import plotly.graph_objects as go

    values = np.asarray(values, dtype=float)
    n_layers = values.shape[0]
    n_heads = values.shape[1] - (len(WHOLE) if signed else 0)
    whole = values if signed else np.concatenate([values, np.full((n_layers, len(WHOLE)), np.nan)], axis=1)
    names = [*(f"H{head}" for head in range(n_heads)), *WHOLE]
    masked = np.zeros(whole.shape, dtype=bool)
    masked[:, n_heads:] = np.isnan(whole[:, n_heads:])

    def hover(layer: int, column: int) -> str:
        said = f"L{layer} {names[column]}"
        if not masked[layer, column]:
            said += f"<br>{what} {number(whole[layer, column])}"
        done = signs.get((layer, column))
        return f"{said}<br>{escaped(done)}" if done else said

    done = "; ".join(f"L{layer} {names[column]} {sign}" for (layer, column), sign in sorted(signs.items()))
    fig = heatmap(
        whole,
        x_labels=names,
        y_labels=[f"L{layer}" for layer in range(n_layers)],
        what=what,
        x_title=x_title,
        y_title=y_title,
        title=title,
        alt=f"{what} of {n_heads} heads in {n_layers} layers, later ones higher. {done or '–'}",
        colours="diverging" if signed else "sequential",
        low=None if signed else 0.0,
        high=most,
        masked=masked,
        hover=hover,
        upward=True,
        selectable=True,
        template=template,
    )
    # Masked cells are clicked too: their hover says which they are.
    markers = fig.data[-1]
    markers.hovertext = [hover(int(layer), int(column)) for layer, column in markers.customdata]
    for layer, column in np.argwhere(masked):  # blank, not missing: there is a part to click
        fig.add_shape(
            type="rect", x0=column - 0.47, x1=column + 0.47, y0=layer - 0.47, y1=layer + 0.47, layer="below",
            line=dict(color=theme(template).faint, width=1),
        )  # fmt: skip
    for (layer, column), sign in signs.items():
        fig.add_shape(
            type="rect", x0=column - 0.47, x1=column + 0.47, y0=layer - 0.47, y1=layer + 0.47,
            line=dict(color=theme(template).negative, width=2.5),
        )  # fmt: skip
        fig.add_annotation(  # in the cell's corner: its middle holds the number
            x=column - 0.43, y=layer + 0.43, xanchor="left", yanchor="top", text=f"<b>{escaped(sign)}</b>",
            showarrow=False, captureevents=False, font=dict(size=11, color=theme(template).negative), borderpad=0,
            bgcolor="rgba(255,255,255,0.85)" if template == "light" else "rgba(20,23,28,0.85)",
        )  # fmt: skip
    if isinstance(markers, go.Scatter):
        markers.marker.size = 22
    fig.add_vline(x=n_heads - 0.5, line=dict(color=theme(template).faint, width=2))
    return fig.update_layout(height=max(250, min(640, 130 + 44 * n_layers)))
