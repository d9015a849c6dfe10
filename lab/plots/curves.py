"""Lines: losses of runs, and the size of the residual stream through the layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.plots.theme import LEGEND_BELOW, LEGEND_MARGIN, bare_figure, escaped, log_axis, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import ResidualNorms

Metrics = Sequence[Mapping[str, Any]]
X_TITLES = {
    "step": "step",
    "tokens": "tokens seen",
    "seconds": "training time (s)",
    "wall_seconds": "wall time (s)",
}
MAX_POINTS = 2000
"""Points of one line that are sent to the browser."""


def loss_curves(
    runs: Mapping[str, Metrics],
    *,
    x: str = "step",
    log_y: bool = False,
    checkpoints: Mapping[str, Sequence[int]] | None = None,
    template: str = "light",
) -> go.Figure:
    """Training loss (thin) and validation loss (thick, with points) of any number of runs, in nats per token.

    runs: name -> lines of metrics (``step``, ``train_loss``, ``val_loss``, ...). A training loss that is not finite
    is a gap; a line without a validation loss was not evaluated and is passed over. Lines are thinned to
    ``MAX_POINTS`` points with every extreme kept. checkpoints: run -> steps to mark on the validation line.
    """
    if x not in X_TITLES:
        raise ValueError(f"x is {x!r}; known are {', '.join(X_TITLES)}.")
    lasts = []
    fig = bare_figure(template, title="Loss: training thin, validation thick", alt="", height=380)
    lines = theme(template).lines
    for index, (name, metrics) in enumerate(runs.items()):
        colour, label = lines[index % len(lines)], escaped(name)
        train = [(row[x], _finite(row.get("train_loss"))) for row in metrics if x in row and "train_loss" in row]
        val = [(row[x], _finite(row["val_loss"])) for row in metrics if x in row and row.get("val_loss") is not None]
        _add_line(fig, train, colour, label, "train", x, width=1.0, opacity=0.75)
        _add_line(fig, val, colour, label, "val", x, width=3.0, opacity=1.0)
        _add_checkpoints(fig, metrics, (checkpoints or {}).get(name, ()), colour, label, x)
        finite = [loss for _, loss in val or train if math.isfinite(loss)]
        lasts.append(f"{name} {number(finite[-1])}" if finite else f"{name}: no loss yet")
    fig.update_xaxes(title=X_TITLES[x], showgrid=True)
    drawn = [value for trace in fig.data for value in trace.y]
    fig.update_yaxes(title="loss (nats per token)", showgrid=True, **(log_axis(drawn) if log_y else {}))
    fig.update_layout(
        meta={"alt": f"Loss curves of {len(runs)} runs against {X_TITLES[x]}. Last: {'; '.join(lasts)}."},
        legend=LEGEND_BELOW,
        margin=LEGEND_MARGIN,
    )
    return fig


def _finite(value: Any) -> float:
    """None stands in files for a number that JSON cannot hold."""
    return math.nan if value is None else float(value)


def _add_line(
    fig: go.Figure,
    points: list[tuple[float, float]],
    colour: str,
    label: str,
    kind: str,
    x: str,
    *,
    width: float,
    opacity: float,
) -> None:
    import plotly.graph_objects as go

    if not points:
        return
    xs, ys = decimate(*np.array(points, dtype=float).T)
    fig.add_trace(
        go.Scatter(
            x=xs,
            y=ys,
            mode="lines+markers" if kind == "val" and len(xs) <= 200 else "lines",
            line=dict(color=colour, width=width),
            marker=dict(size=6),
            opacity=opacity,
            connectgaps=False,
            name=f"{label} {kind}",
            legendgroup=label,
            hovertemplate=f"{label}<br>{X_TITLES[x]} %{{x}}<br>{kind} loss %{{y:.4f}}<extra></extra>",
        )
    )


def _add_checkpoints(fig: go.Figure, metrics: Metrics, steps: Sequence[int], colour: str, label: str, x: str) -> None:
    import plotly.graph_objects as go

    wanted = set(steps)
    rows = [row for row in metrics if row.get("step") in wanted and x in row]
    found = [(row[x], _finite(row.get("val_loss") or row.get("train_loss")), row["step"]) for row in rows]
    if not found:
        return
    xs, ys, at = zip(*found, strict=True)
    fig.add_trace(
        go.Scatter(
            x=xs,
            y=ys,
            mode="markers",
            marker=dict(symbol="diamond-open", size=10, color=colour),
            customdata=at,
            name=f"{label} checkpoints",
            legendgroup=label,
            hovertemplate=f"{label}<br>checkpoint at step %{{customdata}}<extra></extra>",
        )
    )


def decimate(x: np.ndarray, y: np.ndarray, most: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most ``most`` points of a line; the smallest and largest of every stretch, the ends and gaps stay."""
    if len(x) <= most:
        return x, y
    kept = {0, len(x) - 1}
    for stretch in np.array_split(np.arange(len(x)), max(1, (most - 2) // 3)):
        finite = stretch[np.isfinite(y[stretch])]
        if len(finite):
            kept |= {int(finite[y[finite].argmin()]), int(finite[y[finite].argmax()])}
        if len(finite) < len(stretch):
            kept.add(int(stretch[~np.isfinite(y[stretch])][0]))
    index = np.array(sorted(kept))
    return x[index], y[index]


def residual_norms(
    norms: ResidualNorms, *, position: int | None = None, log_y: bool = True, template: str = "light"
) -> go.Figure:
    """Size of the stream and of the updates through the layers, at one position or the median over positions.

    The stream is drawn at the embedding, after each attention and after each MLP; updates where they are added.
    """
    import plotly.graph_objects as go

    n_layers, n_pos = norms.resid_pre.shape
    if position is not None and not -n_pos <= position < n_pos:
        raise ValueError(f"Position {position} is outside the prompt of {n_pos} tokens.")

    def at(values: np.ndarray) -> np.ndarray:
        return np.median(values, axis=1) if position is None else values[:, position]

    after_attention, after_mlp = np.arange(n_layers) + 0.5, np.arange(n_layers) + 1.0
    stream_x = np.concatenate([[0.0], np.stack([after_attention, after_mlp], axis=1).ravel()])
    mid_post = np.stack([at(norms.resid_mid), at(norms.resid_post)], axis=1).ravel()
    stream = np.concatenate([at(norms.resid_pre)[:1], mid_post])
    names = ["embed", *(f"L{layer} {point}" for layer in range(n_layers) for point in ("mid", "post"))]
    colours = theme(template).lines
    where = "median over positions"
    if position is not None:
        where = f"position {position % n_pos} “{escaped(norms.token_texts[position])}”"
    layers = [f"L{layer}" for layer in range(n_layers)]
    series = (
        ("stream", stream_x, stream, names, None, 3.0),
        ("attention update", after_attention, at(norms.attn_out), layers, at(norms.attn_cosine), 1.5),
        ("MLP update", after_mlp, at(norms.mlp_out), layers, at(norms.mlp_cosine), 1.5),
    )
    alt = (
        f"RMS of the residual stream through {n_layers} layers, {where}: from {number(stream[0])} after the "
        f"embedding to {number(stream[-1])} at the end."
    )
    fig = bare_figure(template, title=f"Residual stream and updates, {where}", alt=alt, height=360)
    for (name, x, y, texts, cosine, width), colour in zip(series, colours, strict=False):
        hover = [f"{text}<br>{name}: RMS {number(value)}" for text, value in zip(texts, y, strict=True)]
        if cosine is not None:
            hover = [f"{h}<br>cosine with the stream {number(c)}" for h, c in zip(hover, cosine, strict=True)]
        fig.add_trace(
            go.Scatter(
                x=x,
                y=y,
                mode="lines+markers",
                name=name,
                line=dict(color=colour, width=width, dash="solid" if name == "stream" else "dot"),
                hovertext=hover,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    fig.update_xaxes(
        title="after layer",
        tickmode="array",
        tickvals=list(range(n_layers + 1)),
        ticktext=["embed", *layers],
        showgrid=True,
    )
    sizes = np.concatenate([trace.y for trace in fig.data])
    fig.update_yaxes(title="RMS over d_model", showgrid=True, **(log_axis(sizes) if log_y else {}))
    return fig.update_layout(legend=dict(orientation="h", y=-0.32), margin=dict(b=80))
