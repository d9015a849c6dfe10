"""The film of a run: a measure of its heads or layers through training, above the loss at the same steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.attention import SCORE_NAMES
from lab.plots.cells import heatmap
from lab.plots.curves import Metrics, decimate
from lab.plots.theme import LEGEND_BELOW, LEGEND_MARGIN, bare_figure, log_axis, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import Dynamics

MEASURE_NAMES = {
    **SCORE_NAMES,
    "residual_rms": "RMS of the residual stream",
    "attn_rms": "RMS of what attention adds",
    "mlp_rms": "RMS of what the MLP adds",
    "grad_norm": "gradient norm",
}
DASHES = ("solid", "dash", "dot", "dashdot")
Between = tuple[int, int]


def film_curves(
    film: Dynamics,
    metrics: Metrics,
    *,
    chosen: Sequence[int] | None = None,
    step: int | None = None,
    threshold: float | None = None,
    between: Between | None = None,
    template: str = "light",
) -> go.Figure:
    """A head score through training, a line a head in its layer's colour, and below it the losses at the same steps.

    film.values [checkpoint, layer, head]. chosen: (layer, head) drawn thick; step: a checkpoint to mark; threshold: a
    level to mark; between: two steps to shade. Steps are on a logarithmic axis that has a place for 0. Every point
    carries (layer, head, step) as ``customdata``, for clicks.
    """
    import plotly.graph_objects as go

    _check(film, "[checkpoint, layer, head]")
    what = MEASURE_NAMES.get(film.measure, film.measure)
    n_layers, n_heads = film.values.shape[1:]
    at = None if chosen is None else _head(film, chosen)
    title = f"{what.capitalize()} of {n_layers * n_heads} heads through training, and the loss"
    fig = bare_figure(template, title=title, alt=_alt(film, title, at), height=560)
    x = _place(film.steps)
    for layer in range(n_layers):
        colour, dash = _style(layer, template)
        for head in range(n_heads):
            thick = (layer, head) == at
            series = film.values[:, layer, head]
            name = film.labels[layer * n_heads + head]
            fig.add_trace(
                go.Scatter(
                    x=x,
                    y=series,
                    mode="lines+markers",
                    line=dict(color=colour, width=4 if thick else 1.3, dash=dash),
                    marker=dict(size=9 if thick else 5),
                    opacity=1.0 if thick or at is None else 0.55,
                    zorder=1 if thick else 0,
                    name=f"layer {layer}",
                    legendgroup=f"layer {layer}",
                    showlegend=head == 0,
                    customdata=np.stack([np.full(len(x), layer), np.full(len(x), head), film.steps], axis=1),
                    text=[f"{name}, step {value:,}" for value in film.steps.tolist()],
                    hovertemplate="%{text}<br>%{y:.3f}<extra></extra>",
                )
            )
    _losses(fig, metrics, template)
    marks = theme(template)
    across = dict(xref="x", yref="paper", y0=0, y1=1, layer="below")
    if between is not None:
        low, high = _place(np.array(between, dtype=float)).tolist()
        fig.add_shape(type="rect", x0=low, x1=high, fillcolor=marks.faint, line_width=0, **across)
    if threshold is not None:
        fig.add_hline(y=threshold, line=dict(color=marks.ink, width=1, dash="dash"))
    if step is not None:
        place = float(_place(np.array([step]))[0])
        fig.add_shape(type="line", x0=place, x1=place, line=dict(color=marks.negative, width=1.5, dash="dot"), **across)
    _step_axis(fig, film.steps)
    fig.update_xaxes(title="step, logarithmic", anchor="y2", domain=[0, 1])
    reach = None if film.measure == "entropy" else [-0.02, max(1.02, float(np.nanmax(film.values, initial=0.0)))]
    fig.update_yaxes(title=what, domain=[0.36, 1], showgrid=True, range=reach)
    fig.update_layout(
        yaxis2=dict(
            title="loss (nats)", domain=[0, 0.28], anchor="x", showgrid=True, gridcolor=marks.faint, automargin=True,
            zeroline=False,
        ),
        legend=LEGEND_BELOW,
        margin=LEGEND_MARGIN,
    )  # fmt: skip
    return fig


def film_grid(
    film: Dynamics, *, chosen: Sequence[int] | None = None, threshold: float | None = None, template: str = "light"
) -> go.Figure:
    """The same as cells: a row a head, a column a checkpoint. An invisible marker in every cell carries (row, column).

    The chosen head's name is marked, and a cell from which on the score has reached the threshold carries its number.
    """
    _check(film, "[checkpoint, layer, head]")
    n_heads = film.values.shape[2]
    flat = film.flat.T  # [head, checkpoint]
    names = list(film.labels)
    if chosen is not None:
        layer, head = _head(film, chosen)
        at = layer * n_heads + head
        names[at] = f"<b>▸ {names[at]}</b>"
    what = MEASURE_NAMES.get(film.measure, film.measure)
    texts = np.full(flat.shape, "", dtype=object)
    if threshold is not None and flat.size <= 2000:
        strong = flat >= threshold  # NaN is not
        texts[strong] = [f"{value:.2f}" for value in flat[strong]]
    steps = [f"{step:,}" for step in film.steps.tolist()]
    title = f"{what.capitalize()}, heads by checkpoints"
    return heatmap(
        flat,
        x_labels=steps,
        y_labels=names,
        what=what,
        x_title="checkpoint (steps are not evenly spaced)",
        y_title="head",
        title=title,
        alt=_alt(film, title, None),
        high=None if film.measure == "entropy" else 1.0,
        cell_text=texts,
        hover=lambda row, column: f"{film.labels[row]}, step {steps[column]}<br>{what} {number(flat[row, column])}",
        selectable=True,
        template=template,
    )


def layer_curves(
    films: Mapping[str, Dynamics], *, step: int | None = None, log_y: bool = True, template: str = "light"
) -> go.Figure:
    """Norms through training, a panel a measure and a line a layer: ``values`` [checkpoint, layer]."""
    import plotly.graph_objects as go

    if not films:
        raise ValueError("There is no measure to draw.")
    for film in films.values():
        _check(film, "[checkpoint, layer]")
    said = [
        f"{MEASURE_NAMES.get(name, name)} from {_span(film.flat[0])} to {_span(film.flat[-1])}"
        for name, film in films.items()
    ]
    title = "Layers through training"
    alt = f"{title}, at the first and at the last checkpoint, smallest to largest layer: {'; '.join(said)}."
    fig = bare_figure(template, title=title, alt=alt, height=360)
    marks = theme(template)
    width = (1 - 0.09 * (len(films) - 1)) / len(films)
    for panel, (name, film) in enumerate(films.items()):
        suffix = "" if panel == 0 else str(panel + 1)
        what = MEASURE_NAMES.get(name, name)
        for layer in range(film.values.shape[1]):
            colour, dash = _style(layer, template)
            fig.add_trace(
                go.Scatter(
                    x=_place(film.steps),
                    y=film.values[:, layer],
                    xaxis=f"x{suffix}",
                    yaxis=f"y{suffix}",
                    mode="lines+markers",
                    line=dict(color=colour, width=1.8, dash=dash),
                    marker=dict(size=4),
                    name=f"layer {layer}",
                    legendgroup=f"layer {layer}",
                    showlegend=panel == 0,
                    customdata=film.steps,
                    hovertemplate=f"layer {layer}, step %{{customdata:,}}<br>{what} %{{y:.4g}}<extra></extra>",
                )
            )
        left = panel * (width + 0.09)
        axis = dict(automargin=True, zeroline=False, gridcolor=marks.faint, showgrid=True)
        fig.update_layout(
            {
                f"xaxis{suffix}": dict(
                    axis, **_ticks_of(film.steps, 6), domain=[left, left + width], anchor=f"y{suffix}"
                ),
                f"yaxis{suffix}": dict(
                    axis,
                    title=what,
                    **(log_axis(film.values) if log_y else {}),
                    anchor=f"x{suffix}",
                ),
            }
        )
        if step is not None:
            line = dict(color=marks.negative, width=1.5, dash="dot")
            place = float(_place(np.array([step]))[0])
            fig.add_shape(
                type="line", xref=f"x{suffix}", yref=f"y{suffix} domain", x0=place, x1=place, y0=0, y1=1, line=line
            )
    return fig.update_layout(legend=LEGEND_BELOW, margin=LEGEND_MARGIN)


def _check(film: Dynamics, axes: str) -> None:
    """ValueError unless the film has checkpoints and values of these axes."""
    if not len(film.steps):
        raise ValueError(f"The film of {film.measure!r} in {film.run} has no checkpoints: there is nothing to draw.")
    if film.values.ndim != axes.count(",") + 1:
        raise ValueError(
            f"The film of {film.measure!r} has values of shape {list(film.values.shape)}; this figure draws {axes}. "
            "film_curves and film_grid draw heads, layer_curves layers and probes; to_frame() holds any."
        )


def _head(film: Dynamics, chosen: Sequence[int]) -> tuple[int, int]:
    layer, head = (int(index) for index in chosen)
    n_layers, n_heads = film.values.shape[1:]
    if not (0 <= layer < n_layers and 0 <= head < n_heads):
        raise ValueError(f"chosen is {(layer, head)}; the film has layers 0 to {n_layers - 1}, heads to {n_heads - 1}.")
    return layer, head


def _place(steps: np.ndarray) -> np.ndarray:
    """Where a step lies on the axis: the logarithm, with a place for step 0."""
    return np.log10(np.asarray(steps, dtype=float) + 1.0)


def _style(layer: int, template: str) -> tuple[str, str]:
    lines = theme(template).lines
    return lines[layer % len(lines)], DASHES[layer // len(lines) % len(DASHES)]


def _losses(fig: go.Figure, metrics: Metrics, template: str) -> None:
    import plotly.graph_objects as go

    ink = theme(template).ink
    for key, name, width in (("train_loss", "training loss", 1.0), ("val_loss", "validation loss", 2.5)):
        points = [(row["step"], row[key]) for row in metrics if "step" in row and row.get(key) is not None]
        if not points:
            continue
        steps, losses = decimate(*np.array(points, dtype=float).T)
        fig.add_trace(
            go.Scatter(
                x=_place(steps),
                y=losses,
                yaxis="y2",
                mode="lines+markers" if key == "val_loss" and len(steps) <= 200 else "lines",
                line=dict(color=ink, width=width),
                marker=dict(size=5),
                opacity=0.9 if key == "val_loss" else 0.6,
                name=name,
                customdata=steps,
                hovertemplate=f"step %{{customdata:,}}<br>{name} %{{y:.4f}}<extra></extra>",
            )
        )


def _ticks_of(steps: np.ndarray, most: int = 13) -> dict[str, object]:
    """Ticks at checkpoints, far enough apart to be read."""
    places = _place(steps)
    wanted = np.linspace(places[0], places[-1], most)
    ticks = sorted({int(steps[np.abs(places - at).argmin()]) for at in wanted})
    return dict(
        tickmode="array",
        tickvals=_place(np.array(ticks)).tolist(),
        ticktext=[f"{step:,}" for step in ticks],
        tickangle=0,
        title="step, logarithmic",
    )


def _step_axis(fig: go.Figure, steps: np.ndarray) -> None:
    fig.update_xaxes(showgrid=True, **_ticks_of(steps))


def _alt(film: Dynamics, title: str, chosen: tuple[int, int] | None) -> str:
    first, last = film.steps[0], film.steps[-1]
    said = f"{title}. Run {film.run}, {len(film.steps)} checkpoints from step {first} to {last}."
    ends = film.flat[-1]
    if np.isfinite(ends).any():
        top = int(np.nanargmax(ends))
        said += f" Largest at the end: {film.labels[top]}, {number(ends[top])}."
    if chosen is not None:
        begins, stands = film.values[0][chosen], film.values[-1][chosen]
        said += f" L{chosen[0]}H{chosen[1]} goes from {number(begins)} to {number(stands)}."
    return said


def _span(values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    return f"{number(finite.min())} to {number(finite.max())}" if len(finite) else "no number"
