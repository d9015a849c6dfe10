"""The one heatmap: whole-number axes, a stated colour range, and no bad value hidden in a colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.ink import inked
from lab.plots.theme import Scale, bar_title, bare_figure, cell_number, integer_axis, limit, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

NUMBERS_BELOW = 15
"""Cells show their number where both sides are shorter than this."""
HOVER_LIMIT = 60_000
"""Cells above which hover gives positions and value, without a text of its own for each cell."""

Hover = Callable[[int, int], str]


def heatmap(
    values: np.ndarray,
    *,
    x_labels: Sequence[str],
    y_labels: Sequence[str],
    what: str,
    x_title: str,
    y_title: str,
    title: str,
    alt: str,
    colours: str = "sequential",
    low: float | None = None,
    high: float | None = None,
    masked: np.ndarray | None = None,
    cell_text: np.ndarray | None = None,
    hover: Hover | None = None,
    upward: bool = False,
    selectable: bool = False,
    square: bool = False,
    template: str = "light",
) -> go.Figure:
    """A matrix [row, column] as coloured cells.

    x_labels, y_labels: escaped text of each column and row; ``what``: what the colour is, for the colour bar, which
    also states the range. colours "sequential": ``low`` to ``high`` (default 0 and the largest value); "diverging":
    ``high`` either side of zero (default the largest magnitude), orange below, blue above.
    masked [row, column]: cells left blank. Any other cell that cannot be coloured as it is carries a mark: x not a
    number, the infinity sign, a triangle where the value is beyond the range.
    cell_text [row, column]: escaped text in the cells, instead of numbers. hover(row, column): escaped text.
    upward: row 0 at the bottom. selectable: an invisible marker in every cell, whose ``customdata`` is (row, column),
    for charts whose cells are to be clicked.
    """
    import plotly.graph_objects as go

    values = np.asarray(values)
    rows, columns = _checked(values, x_labels, y_labels)
    masked = np.zeros(values.shape, dtype=bool) if masked is None else masked
    shown = np.where(masked, np.nan, values.astype(np.float32, copy=False))
    low, high = _range(shown, colours, low, high)
    coloured = np.where(np.isfinite(shown), shown, np.nan).astype(np.float32)
    scale = theme(template).diverging if colours == "diverging" else theme(template).sequential

    fig = bare_figure(template, title=title, alt=alt, height=max(300, min(720, 130 + 26 * rows)))
    trace = go.Heatmap(
        z=coloured,
        zmin=low,
        zmax=high,
        colorscale=scale,
        colorbar=dict(
            title=dict(text=bar_title(what, f"{limit(low)} to {limit(high)}")),
            thickness=12,
            outlinewidth=0,
            nticks=3 if rows < 8 else 0,  # a low bar has room for few numbers; 0: plotly's own choice
        ),
        hoverongaps=False,
        xgap=1 if columns <= 64 else 0,
        ygap=1 if rows <= 64 else 0,
    )
    _add_text(trace, shown, cell_text, low, high, scale)
    _add_hover(trace, shown, masked, hover, what)
    fig.add_trace(trace)
    _add_marks(fig, shown, masked, theme(template).ink)
    if selectable:
        _add_targets(fig, trace, rows, columns)
    fig.update_xaxes(**integer_axis(x_labels), title=x_title, range=[-0.5, columns - 0.5], showgrid=False)
    y_range = [-0.5, rows - 0.5] if upward else [rows - 0.5, -0.5]
    fig.update_yaxes(**integer_axis(y_labels), title=y_title, range=y_range, showgrid=False)
    if square:
        fig.update_yaxes(scaleanchor="x", constrain="domain")
        fig.update_xaxes(constrain="domain")
    return fig


def _checked(values: np.ndarray, x_labels: Sequence[str], y_labels: Sequence[str]) -> tuple[int, int]:
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"A heatmap needs [row, column] values; these have shape {list(values.shape)}.")
    if values.shape != (len(y_labels), len(x_labels)):
        raise ValueError(f"{len(y_labels)} row and {len(x_labels)} column labels for values {list(values.shape)}.")
    return values.shape[0], values.shape[1]


def _range(shown: np.ndarray, colours: str, low: float | None, high: float | None) -> tuple[float, float]:
    if colours not in ("sequential", "diverging"):
        raise ValueError(f"colours is {colours!r}; known are sequential, diverging.")
    finite = shown[np.isfinite(shown)]
    if colours == "diverging":
        high = float(np.abs(finite).max(initial=0)) if high is None else high
        return -(high or 1.0), high or 1.0
    low = 0.0 if low is None else low
    high = float(finite.max(initial=low)) if high is None else high
    return low, high if high > low else low + 1.0


def _add_text(
    trace: go.Heatmap, shown: np.ndarray, cell_text: np.ndarray | None, low: float, high: float, scale: Scale
) -> None:
    """Given text, or numbers where there are few; a cell beyond the colour range carries a triangle either way."""
    if cell_text is None:
        cell_text = np.full(shown.shape, "", dtype=object)
        if max(shown.shape) < NUMBERS_BELOW:
            cell_text = np.vectorize(lambda v: cell_number(v) if np.isfinite(v) else "", otypes=[object])(shown)
    margin = 1e-6 * (high - low)
    finite = np.isfinite(shown)
    above, below = finite & (shown > high + margin), finite & (shown < low - margin)
    cell_text = np.where(above, "▲", np.where(below, "▼", "")).astype(object) + cell_text
    if cell_text.any():
        trace.update(
            text=inked(cell_text, shown, low, high, scale).tolist(), texttemplate="%{text}", textfont=dict(size=11)
        )


def _add_hover(trace: go.Heatmap, shown: np.ndarray, masked: np.ndarray, hover: Hover | None, what: str) -> None:
    if shown.size > HOVER_LIMIT or hover is None:
        trace.hovertemplate = f"row %{{y}}, column %{{x}}<br>{what} %{{z}}<extra></extra>"
        return
    rows, columns = shown.shape
    trace.hovertext = [["" if masked[r, c] else hover(r, c) for c in range(columns)] for r in range(rows)]
    trace.hovertemplate = "%{hovertext}<extra></extra>"


def _add_marks(fig: go.Figure, shown: np.ndarray, masked: np.ndarray, ink: str) -> None:
    """A sign in every visible cell that has no colour because its value has no place in a range."""
    import plotly.graph_objects as go

    cases = (
        ("×", "not a number", np.isnan(shown) & ~masked),
        ("∞", "infinite", np.isposinf(shown)),
        ("−∞", "minus infinite", np.isneginf(shown)),
    )
    for sign, meaning, where in cases:
        y, x = np.nonzero(where)
        if len(x):
            fig.add_trace(
                go.Scatter(
                    x=x,
                    y=y,
                    mode="text",
                    text=[sign] * len(x),
                    textfont=dict(size=12, color=ink),
                    hovertemplate=f"{meaning}<extra></extra>",
                    name=meaning,
                    showlegend=False,
                )
            )


def _add_targets(fig: go.Figure, trace: go.Heatmap, rows: int, columns: int) -> None:
    """Cells of a heatmap report no click to Streamlit; markers do."""
    import plotly.graph_objects as go

    y, x = (index.ravel() for index in np.indices((rows, columns)))
    texts = trace.hovertext
    fig.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="markers",
            marker=dict(symbol="square", size=26, opacity=0),
            customdata=np.stack([y, x], axis=1),
            hovertext=[texts[r][c] for r, c in zip(y, x, strict=True)] if texts is not None else None,
            hovertemplate="%{hovertext}<extra></extra>"
            if texts is not None
            else "row %{y}, column %{x}<extra></extra>",
            name="cells",
            showlegend=False,
        )
    )
