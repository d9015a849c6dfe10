"""Two of the same thing and their difference, on one colour range: along a prompt, as matrices, through the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.ink import inked
from lab.plots.theme import (
    LEGEND_BELOW,
    LEGEND_MARGIN,
    Label,
    bar_title,
    bare_figure,
    cell_number,
    check_labels,
    escaped,
    integer_axis,
    limit,
    log_axis,
    number,
    theme,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import ResidualNorms

NAMES = ("before", "after", "difference")
WRITTEN_BELOW = 28
"""Columns of a strip below which every cell shows its number."""
WRITTEN_SIDE = 10
"""Side of a matrix below which every cell shows its number."""
SIGNS = ("×", "∞", "−∞")


def triple_strip(
    first: np.ndarray,
    second: np.ndarray,
    labels: Sequence[Label],
    *,
    what: str,
    names: Sequence[str] = NAMES,
    signed: bool = False,
    masked: np.ndarray | None = None,
    chosen: int | None = None,
    x_title: str = "token",
    title: str = "",
    template: str = "light",
) -> go.Figure:
    """One number a token, twice, and second less first below: three rows, a column a position.

    The first two rows share one colour range, 0 (or, ``signed``, minus the largest magnitude) to the largest value of
    all three rows; the difference is coloured on plus and minus the same number, so a pale cell is a small change.
    names: of the three rows. masked [pos]: columns without a value. chosen: column in a frame. A marker in each cell
    carries (position,) as ``customdata``.
    """
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if first.shape != second.shape or first.ndim != 1 or not first.size:
        raise ValueError(f"Two rows of one number a token are needed; these have shapes {first.shape}, {second.shape}.")
    texts = [escaped(label, 14) for label in check_labels(labels, list(range(len(first))))]
    hidden = np.zeros(len(first), dtype=bool) if masked is None else masked
    rows = np.stack([first, second, second - first])
    rows[:, hidden] = np.nan
    most = _most(rows)
    shown_names = [escaped(name) for name in names]
    mean = [float(np.mean(row[~hidden])) if (~hidden).any() else np.nan for row in rows]
    alt = (
        f"{what} of {len(first)} tokens: {names[0]} {number(mean[0])} on average, {names[1]} {number(mean[1])}, "
        f"{names[2]} {number(mean[2])}. Colour to {limit(most)}."
    )
    fig = bare_figure(template, title=title, alt=alt, height=340)
    _add_rows(fig, rows[:2], [0, 1], what, signed, most, template, bar=(0.66, 0.6))
    _add_rows(fig, rows[2:], [2], shown_names[2], True, most, template, bar=(0.12, 0.5))
    _add_cells(fig, rows, hidden, texts, shown_names, what, len(texts) < WRITTEN_BELOW, template)
    if chosen is not None:
        fig.add_shape(
            type="rect",
            x0=chosen - 0.5,
            x1=chosen + 0.5,
            y0=-0.5,
            y1=2.5,
            line=dict(color=theme(template).ink, width=2),
        )
    fig.update_xaxes(**integer_axis(texts), title=x_title, range=[-0.5, len(texts) - 0.5], showgrid=False)
    fig.update_yaxes(
        type="linear", tickmode="array", tickvals=[0, 1, 2], ticktext=shown_names, range=[2.5, -0.5], showgrid=False
    )
    return fig


def _most(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max(initial=0)) or 1.0


def _add_rows(
    fig: go.Figure,
    values: np.ndarray,
    at: list[int],
    what: str,
    signed: bool,
    most: float,
    template: str,
    bar: tuple[float, float],
) -> None:
    import plotly.graph_objects as go

    low = -most if signed else 0.0
    colours = theme(template)
    fig.add_trace(
        go.Heatmap(
            z=np.where(np.isfinite(values), values, np.nan).astype(np.float32),
            y=at,
            zmin=low,
            zmax=most,
            colorscale=colours.diverging if signed else colours.sequential,
            colorbar=dict(
                title=dict(text=bar_title(what, f"{limit(low)} to {limit(most)}"), font=dict(size=10)),
                thickness=10, outlinewidth=0, len=bar[1], y=bar[0], nticks=3, tickfont=dict(size=10),
            ),
            xgap=1 if values.shape[1] <= 64 else 0,
            ygap=2,
            hoverinfo="skip",
            hoverongaps=False,
        )
    )  # fmt: skip


def _add_cells(
    fig: go.Figure,
    rows: np.ndarray,
    hidden: np.ndarray,
    texts: list[str],
    names: list[str],
    what: str,
    written: bool,
    template: str,
) -> None:
    """A marker in every cell for hover and clicks, with its number where there is room, or the sign of a bad value."""
    import plotly.graph_objects as go

    if written:
        _write_numbers(fig.data[0], rows[:2])
        _write_numbers(fig.data[1], rows[2:])
    y, x = (index.ravel() for index in np.indices(rows.shape))
    keep = ~hidden[x]
    x, y = x[keep], y[keep]
    if not len(x):
        return
    values = rows[y, x]
    signs = ["" if np.isfinite(v) else "×" if v != v else SIGNS[1 if v > 0 else 2] for v in values]
    fig.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="markers+text",
            marker=dict(symbol="square", size=24, opacity=0),
            text=signs,
            textfont=dict(color=theme(template).ink),
            customdata=x[:, None],
            hovertext=[
                f"{c}: “{texts[c]}”<br>{names[r]}: {what} {number(v, 4)}" for r, c, v in zip(y, x, values, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
            name="tokens",
            showlegend=False,
        )
    )


def _write_numbers(trace: go.Heatmap, values: np.ndarray) -> None:
    text = np.vectorize(lambda v: cell_number(v) if np.isfinite(v) else "", otypes=[object])(values)
    text = inked(text, values, trace.zmin, trace.zmax, list(trace.colorscale))
    trace.update(text=text.tolist(), texttemplate="%{text}", textfont=dict(size=10))


def triple_maps(
    first: np.ndarray,
    second: np.ndarray,
    *,
    x_labels: Sequence[Label],
    y_labels: Sequence[Label],
    what: str,
    x_title: str,
    y_title: str,
    names: Sequence[str] = NAMES,
    most: float = 1.0,
    masked: np.ndarray | None = None,
    upward: bool = False,
    title: str = "",
    template: str = "light",
) -> go.Figure:
    """Two matrices [row, column] and second less first, side by side: 0 to ``most``, and plus and minus ``most``.

    masked: cells left blank, such as the future. upward: row 0 at the bottom. Values beyond the range carry a triangle.
    """
    import plotly.graph_objects as go

    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if first.shape != second.shape or first.ndim != 2 or not first.size:
        raise ValueError(f"Two matrices of one shape are needed; these have shapes {first.shape}, {second.shape}.")
    n_rows, n_columns = first.shape
    columns = [escaped(label, 12) for label in check_labels(x_labels, list(range(n_columns)))]
    rows = [escaped(label, 12) for label in check_labels(y_labels, list(range(n_rows)))]
    hidden = np.zeros(first.shape, dtype=bool) if masked is None else masked
    panels = [np.where(hidden, np.nan, values) for values in (first, second, second - first)]
    change = np.abs(panels[2][np.isfinite(panels[2])]).max(initial=0)
    alt = (
        f"{what}, {names[0]} and {names[1]}, colour 0 to {limit(most)}, and the difference, coloured on plus and minus "
        f"{limit(most)}; it is {number(float(change))} at most."
    )
    fig = bare_figure(template, title=title, alt=alt, height=max(300, min(620, 130 + 24 * n_rows)))
    colours, gap = theme(template), 0.05
    width = (1 - 2 * gap) / 3
    for place, (values, name) in enumerate(zip(panels, names, strict=True)):
        axis = "" if place == 0 else str(place + 1)
        signed = place == 2
        text = np.full(values.shape, "", dtype=object)
        if max(values.shape) < WRITTEN_SIDE:
            text = np.vectorize(lambda v: cell_number(v) if np.isfinite(v) else "", otypes=[object])(values)
        beyond = np.isfinite(values) & (np.abs(values) > most * (1 + 1e-6))
        low, scale = (-most, colours.diverging) if signed else (0.0, colours.sequential)
        text = inked(np.where(beyond, "▲", "") + text, values, low, most, scale)
        hover = [
            [
                "" if hidden[r, c] else f"{y_title} {r} “{rows[r]}” → {x_title} {c} “{columns[c]}”<br>"
                f"{escaped(name)}: {what} {number(values[r, c])}"
                for c in range(n_columns)
            ]
            for r in range(n_rows)
        ] if values.size <= 20_000 else None  # fmt: skip
        scale_title = bar_title(escaped(name) if signed else what, f"{limit(low)} to {limit(most)}")
        named = "%{hovertext}" if hover is not None else "%{y} → %{x}: %{z}"
        fig.add_trace(
            go.Heatmap(
                z=np.where(np.isfinite(values), values, np.nan).astype(np.float32),
                zmin=low,
                zmax=most,
                colorscale=scale,
                showscale=place != 1,
                colorbar=dict(
                    title=dict(text=scale_title, font=dict(size=10)),
                    thickness=10, outlinewidth=0, len=0.5, y=0.2 if signed else 0.75, nticks=3, tickfont=dict(size=10),
                ),
                text=text.tolist(),
                texttemplate="%{text}",
                textfont=dict(size=10),
                hovertext=hover,
                hovertemplate=f"{named}<extra></extra>",
                hoverongaps=False,
                xaxis=f"x{axis}",
                yaxis=f"y{axis}",
            )
        )  # fmt: skip
        bad = ~np.isfinite(values) & ~hidden
        if bad.any():
            y, x = np.nonzero(bad)
            fig.add_trace(
                go.Scatter(
                    x=x, y=y, mode="text", text=["×"] * len(x), textfont=dict(color=colours.ink), showlegend=False,
                    xaxis=f"x{axis}", yaxis=f"y{axis}", hovertemplate="not a finite number<extra></extra>",
                )
            )  # fmt: skip
        left = place * (width + gap)
        shared = dict(showgrid=False, zeroline=False)
        fig.update_layout(
            {
                f"xaxis{axis}": dict(
                    domain=[left, left + width], anchor=f"y{axis}", title=x_title, range=[-0.5, n_columns - 0.5],
                    automargin=True, **integer_axis(columns, 24), **shared,
                ),
                f"yaxis{axis}": dict(
                    anchor=f"x{axis}", title=y_title if place == 0 else "", automargin=True,
                    range=[-0.5, n_rows - 0.5] if upward else [n_rows - 0.5, -0.5],
                    showticklabels=place == 0, **integer_axis(rows, 24), **shared,
                ),
            }
        )  # fmt: skip
        fig.add_annotation(
            text=f"<b>{escaped(name)}</b>", x=left + width / 2, xref="paper", y=1.0, yref="paper", yanchor="bottom",
            showarrow=False,
        )  # fmt: skip
    return fig.update_layout(margin=dict(t=70))


def norm_lines(
    first: ResidualNorms,
    second: ResidualNorms,
    *,
    names: Sequence[str],
    title: str,
    x_title: str,
    y_title: str,
    template: str = "light",
) -> go.Figure:
    """Median RMS of the stream over positions, from the embedding to after each layer, of two models.

    The horizontal axis is the share of the layers passed, so that networks of different depth lie over each other.
    """
    import plotly.graph_objects as go

    colours = theme(template)
    lasts = []
    fig = bare_figure(template, title=title, alt="", height=340)
    for norms, name, colour in zip((first, second), names, colours.lines, strict=False):
        stream = np.concatenate([np.median(norms.resid_pre[:1], axis=1), np.median(norms.resid_post, axis=1)])
        n_layers = len(stream) - 1
        points = ["embed", *(f"L{layer}" for layer in range(n_layers))]
        lasts.append(f"{name} {number(stream[0])} to {number(stream[-1])}")
        fig.add_trace(
            go.Scatter(
                x=np.arange(n_layers + 1) / n_layers,
                y=stream,
                mode="lines+markers",
                name=escaped(name),
                line=dict(color=colour, width=2.5),
                hovertext=[f"{escaped(name)}<br>{at}: RMS {number(v)}" for at, v in zip(points, stream, strict=True)],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    fig.update_xaxes(title=x_title, tickformat=".0%", showgrid=True)
    fig.update_yaxes(title=y_title, showgrid=True, **log_axis(np.concatenate([trace.y for trace in fig.data])))
    fig.update_layout(
        meta={"alt": f"RMS of the residual stream through the layers: {'; '.join(lasts)}."},
        legend=LEGEND_BELOW, margin=LEGEND_MARGIN,
    )  # fmt: skip
    return fig
