"""Probes by layer, measures through training, and what an intervention or a source position does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.theme import LEGEND_BELOW, LEGEND_MARGIN, bare_figure, escaped, integer_axis, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import Dynamics, InterventionEffect, Probes, SourceContributions

MOST_LINES = 60


def probe_curve(probes: Probes, *, template: str = "light") -> go.Figure:
    """Accuracy at each layer with its 95 % interval, the control, and the commonest class as a line."""
    import plotly.graph_objects as go

    colours = theme(template)
    rows = list(probes.rows)
    x = list(range(len(rows)))
    best = probes.best
    control = {"shuffled": "shuffled labels", "token": "random label a token"}[probes.control_kind]
    title = f"Probes for {escaped(probes.label)} at {probes.site}"
    alt = (
        f"{title}: accuracy on held-out documents for {len(rows)} rows, from {number(probes.accuracy[0], 2)} at "
        f"{rows[0]} to {number(probes.accuracy[-1], 2)} at {rows[-1]}, {number(probes.accuracy[best], 2)} at the row "
        f"that validation prefers, {rows[best]}; {control} {number(float(np.mean(probes.control)), 2)}, the commonest "
        f"class {number(probes.majority, 2)}."
    )
    fig = bare_figure(template, title=title, alt=alt, height=360)
    low, high = np.abs(probes.interval.T - probes.accuracy)
    fig.add_trace(
        go.Scatter(
            x=x,
            y=probes.accuracy,
            error_y=dict(type="data", array=high, arrayminus=low, thickness=1.2),
            mode="lines+markers",
            name="probe (95 % interval)",
            line=dict(color=colours.positive, width=3),
            hovertemplate="%{customdata}<br>accuracy %{y:.4f}<extra></extra>",
            customdata=rows,
        )
    )
    fig.add_trace(
        go.Scatter(
            x=x,
            y=probes.control,
            mode="lines+markers",
            name=f"control: {control}",
            line=dict(color=colours.negative, width=1.5, dash="dot"),
            hovertemplate="%{customdata}<br>control %{y:.4f}<extra></extra>",
            customdata=rows,
        )
    )
    fig.add_hline(y=probes.majority, line=dict(color=colours.ink, width=1, dash="dash"))
    fig.add_annotation(x=x[-1], y=probes.majority, text="commonest class", showarrow=False, yshift=9, xanchor="right")
    fig.update_xaxes(**integer_axis(rows), title="activations read after", showgrid=False)
    fig.update_yaxes(title="accuracy", range=[0, 1.02], showgrid=True)
    return fig.update_layout(legend=LEGEND_BELOW, margin=LEGEND_MARGIN)


def dynamics_curves(dynamics: Dynamics, *, top: int | None = 12, template: str = "light") -> go.Figure:
    """Each value of a measure through training, against the step on a logarithmic axis (step 0 first).

    top: only the series that reach the largest magnitude, at most; None for all.
    """
    import plotly.graph_objects as go

    flat = dynamics.flat
    height = np.nanmax(np.abs(np.where(np.isfinite(flat), flat, np.nan)), axis=0, initial=0.0)
    order = np.argsort(-np.nan_to_num(height), kind="stable")[: MOST_LINES if top is None else top]
    lines = theme(template).lines
    left = flat.shape[1] - len(order)
    note = f", the {len(order)} largest of {flat.shape[1]}" if left else ""
    title = f"{escaped(dynamics.measure)} through training of {escaped(dynamics.run)}{note}"
    first = order[0] if len(order) else None
    said = "" if first is None else f" Largest: {dynamics.labels[first]}, {number(flat[-1, first])} at the last step."
    fig = bare_figure(template, title=title, alt=f"{title}, {len(dynamics.steps)} checkpoints.{said}", height=400)
    x = np.log10(dynamics.steps + 1.0)  # step 0 has a place on the axis
    for number_of, index in enumerate(sorted(order.tolist())):
        label = escaped(dynamics.labels[index])
        fig.add_trace(
            go.Scatter(
                x=x,
                y=flat[:, index],
                mode="lines+markers",
                name=label,
                line=dict(
                    color=lines[number_of % len(lines)], dash=("solid", "dot", "dash")[number_of // len(lines) % 3]
                ),
                marker=dict(size=4),
                customdata=dynamics.steps,
                hovertemplate=f"{label}<br>step %{{customdata}}: %{{y:.4f}}<extra></extra>",
            )
        )
    ticks = _ticks(dynamics.steps)
    fig.update_xaxes(
        title="step, logarithmic",
        tickmode="array",
        tickvals=[float(np.log10(step + 1.0)) for step in ticks],
        ticktext=[f"{step:,}" for step in ticks],
        showgrid=True,
    )
    fig.update_yaxes(title=escaped(dynamics.measure), showgrid=True)
    return fig


def _ticks(steps: np.ndarray, most: int = 12) -> list[int]:
    """Steps to name on the axis, far enough apart to be read."""
    if len(steps) <= most:
        return steps.tolist()
    places = np.log10(steps + 1.0)
    wanted = np.linspace(places[0], places[-1], most)
    return sorted({int(steps[np.abs(places - at).argmin()]) for at in wanted})


def effect_bars(effect: InterventionEffect, *, template: str = "light") -> go.Figure:
    """KL between the predictions before and after, at every position, with the first choices on hover."""

    names = [escaped(text, 14) for text in effect.token_texts]
    what = escaped("; ".join(effect.interventions) or "nothing")
    title = f"Effect of: {what}"
    most = int(np.nanargmax(effect.kl)) if np.isfinite(effect.kl).any() else 0
    alt = (
        f"{title}. KL of the next-token prediction at {len(names)} positions, {number(effect.kl[most])} nats at most, "
    )
    alt += f"at position {most}."
    fig = bare_figure(template, title=title, alt=alt, height=320)
    hover = [
        f"position {at} “{names[at]}”<br>KL {number(effect.kl[at])} nats<br>first choice “{escaped(before)}” → "
        f"“{escaped(after)}”<br>probability of the first {number(p)} → {number(q)}"
        for at, (before, after, p, q) in enumerate(
            zip(effect.top_before_texts, effect.top_after_texts, effect.p_before, effect.p_after, strict=True)
        )
    ]
    fig.add_trace(_bars(effect.kl, hover, [theme(template).positive] * len(names)))
    fig.update_xaxes(**integer_axis(names), title="position (the prediction is for the token after it)", showgrid=False)
    fig.update_yaxes(title="KL(before || after), nats", showgrid=True)
    return fig


def source_bars(sources: SourceContributions, *, template: str = "light") -> go.Figure:
    """What each source position of a head adds to the logit; blue adds, orange takes."""
    names = [escaped(text, 14) for text in sources.token_texts]
    target = f"“{escaped(sources.token_text)}”"
    target += f" less “{escaped(sources.versus_text)}”" if sources.versus >= 0 else ""
    title = f"L{sources.layer}H{sources.head} by source, logit of {target}: {number(sources.total, 2)}"
    most = int(np.argmax(np.abs(np.nan_to_num(sources.values))))
    alt = f"{title}. The largest part, {number(sources.values[most])}, comes from position {most} “{names[most]}”."
    fig = bare_figure(template, title=title, alt=alt, height=320)
    colours = theme(template)
    hover = [
        f"source {at} “{names[at]}”<br>{number(value)} logits<br>attention {number(weight)}"
        for at, (value, weight) in enumerate(zip(sources.values, sources.pattern, strict=True))
    ]
    paint = [colours.positive if value >= 0 else colours.negative for value in sources.values]
    fig.add_trace(_bars(sources.values, hover, paint))
    fig.update_xaxes(**integer_axis(names), title="source position", showgrid=False)
    fig.update_yaxes(title="contribution (logits)", zeroline=True, showgrid=True)
    return fig


def _bars(values: np.ndarray, hover: Sequence[str], colours: Sequence[str]) -> go.Bar:
    import plotly.graph_objects as go

    return go.Bar(
        x=list(range(len(values))),
        y=values,
        marker=dict(color=list(colours)),
        hovertext=list(hover),
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
    )
