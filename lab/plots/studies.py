"""A study in pictures: curves with seed bands, differences with their intervals, and how arms take learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.plots.theme import LEGEND_BELOW, LEGEND_MARGIN, bare_figure, escaped, integer_axis, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

DASHES = ("solid", "dash", "dot")


@dataclass(frozen=True)
class Band:
    """A line of an arm over steps: mean, and the lowest and highest of its seeds."""

    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class Difference:
    """A row of the interval plot: mean, interval of this level (None: not known), every seed's own, what it came to."""

    label: str
    mean: float | None
    low: float | None
    high: float | None
    points: Sequence[float]
    verdict: str
    level: float = 0.95


def study_curves(bands: Mapping[str, Band], template: str = "light") -> go.Figure:
    """Validation loss of each arm at its learning rate, mean over the seeds; the band is from lowest to highest."""
    import plotly.graph_objects as go

    lasts = "; ".join(f"{name} {number(band.mean[-1])}" for name, band in bands.items() if band.mean)
    alt = f"Validation loss of {len(bands)} arms by step, mean of the seeds. Last: {lasts}."
    fig = bare_figure(template, title="Validation loss: mean, lowest and highest seed", alt=alt, height=420)
    for index, (name, band) in enumerate(bands.items()):
        colour, dash = _style(template, index)
        label = escaped(name)
        outline = dict(x=[*band.x, *reversed(band.x)], y=[*band.high, *reversed(band.low)])
        fig.add_trace(
            go.Scatter(**outline, mode="lines", fill="toself", fillcolor=colour, opacity=0.13, line=dict(width=0),
                       hoverinfo="skip", legendgroup=name, showlegend=False)
        )  # fmt: skip
        fig.add_trace(
            go.Scatter(x=band.x, y=band.mean, name=label, mode="lines+markers", line=dict(color=colour, dash=dash),
                       marker=dict(size=5), legendgroup=name,
                       hovertemplate=f"{label}<br>step %{{x}}<br>%{{y:.4f}} nats<extra></extra>")
        )  # fmt: skip
    fig.update_xaxes(title="step", showgrid=True)
    fig.update_yaxes(title="validation loss (nats per token)", showgrid=True)
    fig.update_layout(legend=LEGEND_BELOW, margin=LEGEND_MARGIN)
    return fig


def interval_plot(
    rows: Sequence[Difference],
    *,
    unit: str,
    margin: float | None = None,
    template: str = "light",
    title: str = "Difference, with its interval and each seed",
) -> go.Figure:
    """Differences (treatment minus control): the interval as a line, its mean as a diamond, every seed as a point.

    margin: a grey band around zero within which a difference counts as none.
    """
    import plotly.graph_objects as go

    colours = theme(template)
    said = "; ".join(f"{row.label} {number(row.mean)}" for row in rows if row.mean is not None)
    fig = bare_figure(
        template, title=title, alt=f"Intervals of {len(rows)} differences: {said}.", height=110 + 46 * len(rows)
    )
    if margin is not None:
        fig.add_vrect(x0=-margin, x1=margin, fillcolor=colours.faint, line_width=0, layer="below")
    fig.add_vline(x=0, line=dict(color=colours.ink, width=1))
    for index, row in enumerate(rows):
        at = len(rows) - 1 - index
        label = escaped(row.label)
        fig.add_trace(
            go.Scatter(x=list(row.points), y=[at - 0.18] * len(row.points), mode="markers", showlegend=False,
                       marker=dict(size=6, color=colours.negative, opacity=0.7),
                       hovertemplate=f"{label}<br>one seed: %{{x:+.4f}} {unit}<extra></extra>")
        )  # fmt: skip
        if row.mean is None or row.low is None or row.high is None:
            continue
        known = f"mean {row.mean:+.4f}, {100 * row.level:.3g} % interval {row.low:+.4f} to {row.high:+.4f} {unit}"
        hover = f"{label}<br>{known}<br>{escaped(row.verdict)}"
        fig.add_trace(
            go.Scatter(x=[row.low, row.mean, row.high], y=[at + 0.12] * 3, mode="lines+markers", showlegend=False,
                       line=dict(color=colours.positive, width=3), hovertemplate=f"{hover}<extra></extra>",
                       marker=dict(symbol=["line-ns-open", "diamond", "line-ns-open"], size=[10, 11, 10],
                                   color=colours.positive))
        )  # fmt: skip
    names = [escaped(row.label) for row in reversed(rows)]
    fig.update_yaxes(tickmode="array", tickvals=list(range(len(rows))), ticktext=names, range=[-0.6, len(rows) - 0.4])
    fig.update_xaxes(title=f"treatment minus control ({unit})", showgrid=True)
    return fig


def rate_curves(
    by_lr: Mapping[str, Mapping[float, float]],
    chosen: Mapping[str, float],
    lost: Mapping[str, Mapping[float, float]],
    template: str = "light",
) -> go.Figure:
    """Mean final loss of the tuning seeds over the learning rate. Ring: the rate chosen. Cross: some runs were lost."""
    import plotly.graph_objects as go

    alt = "Final loss over the learning rate. Chosen: " + "; ".join(f"{n} {lr:g}" for n, lr in chosen.items()) + "."
    fig = bare_figure(template, title="Learning rates: ring chosen, cross some lost", alt=alt, height=420)
    for index, (name, losses) in enumerate(by_lr.items()):
        colour, dash = _style(template, index)
        label, rates = escaped(name), sorted(losses)
        shares = [lost.get(name, {}).get(lr, 0.0) for lr in rates]
        rings = [lr == chosen.get(name) for lr in rates]
        symbols = [("circle-x-open" if share else "circle-open") if ring else "x" if share else "circle"
                   for ring, share in zip(rings, shares, strict=True)]  # fmt: skip
        fig.add_trace(
            go.Scatter(x=rates, y=[losses[lr] for lr in rates], name=label, mode="lines+markers", customdata=shares,
                       line=dict(color=colour, dash=dash),
                       marker=dict(symbol=symbols, line=dict(width=2, color=colour),
                                   size=[13 if ring else 7 for ring in rings]),
                       hovertemplate=f"{label}<br>rate %{{x}}<br>%{{y:.4f}} nats<br>lost %{{customdata:.0%}}"
                                     "<extra></extra>")
        )  # fmt: skip
    rates = sorted({lr for losses in by_lr.values() for lr in losses})
    fig.update_xaxes(
        title="learning rate", type="log", showgrid=True, tickmode="array", tickvals=rates,
        ticktext=[f"{lr:g}" for lr in rates],
    )  # fmt: skip
    fig.update_yaxes(title="final loss (nats per token)", showgrid=True)
    fig.update_layout(legend=LEGEND_BELOW, margin=LEGEND_MARGIN)
    return fig


def measure_figure(
    name: str, values: Mapping[str, object], unit: str, template: str = "light", *, from_embed: bool = False
) -> go.Figure:
    """A mechanism measure of each arm: a bar for a number, a line over layers for a row of numbers.

    unit: "" for none. from_embed: the first of the row is the stream before the first layer, not a layer's.
    """
    import plotly.graph_objects as go

    known = {arm: value for arm, value in values.items() if value is not None}
    rows = {arm: value for arm, value in known.items() if isinstance(value, list)}
    said, longest = f" {unit}" if unit else "", max(map(len, rows.values()), default=0)
    places = [f"L{layer}" for layer in range(longest)]
    if from_embed:
        places = ["embed", *places[:-1]]
    fig = bare_figure(template, title=escaped(name), alt=f"{name} of {len(known)} arms.", height=340 if rows else 300)
    if rows:
        for index, (arm, value) in enumerate(rows.items()):
            colour, dash = _style(template, index)
            fig.add_trace(
                go.Scatter(x=list(range(len(value))), y=value, name=escaped(arm), mode="lines+markers",
                           line=dict(color=colour, dash=dash), customdata=places[: len(value)],
                           hovertemplate=f"{escaped(arm)}<br>%{{customdata}}: %{{y:.4g}}{said}<extra></extra>")
            )  # fmt: skip
        fig.update_xaxes(title="after layer" if from_embed else "layer", **integer_axis(places, 24))
        fig.update_yaxes(title=unit, showgrid=True)
        fig.update_layout(legend=LEGEND_BELOW, margin=LEGEND_MARGIN)
    else:
        fig.add_trace(
            go.Bar(x=list(known.values()), y=[escaped(arm) for arm in known], orientation="h",
                   marker=dict(color=theme(template).positive),
                   hovertemplate=f"%{{y}}<br>%{{x:.4g}}{said}<extra></extra>")
        )  # fmt: skip
        fig.update_yaxes(autorange="reversed", type="category")
        fig.update_xaxes(title=unit, showgrid=True, zeroline=True)
        fig.update_layout(height=130 + 26 * len(known))
    return fig


def _style(template: str, index: int) -> tuple[str, str]:
    lines = theme(template).lines
    return lines[index % len(lines)], DASHES[(index // len(lines)) % len(DASHES)]
