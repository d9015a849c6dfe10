"""Signed bars for contributions, plain bars for probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.theme import Label, bare_figure, escaped, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import LogitContributions


def contribution_bars(contributions: LogitContributions, *, top: int = 20, template: str = "light") -> go.Figure:
    """The ``top`` components of largest magnitude, the largest first, and one bar for the sum of all others.

    Blue adds to the logit, orange takes from it; the bars sum to the logit in the title. ``customdata`` of a bar is
    the index of its component in the result, -1 for the others.
    """
    import plotly.graph_objects as go

    if top < 1:
        raise ValueError(f"top is {top}; show at least 1 component.")
    order = contributions.order()
    # a bar "1 other" would take the place of the component itself
    shown = order if len(order) <= top + 1 else order[:top]
    rest = order[len(shown) :]
    values = contributions.values[shown].tolist()
    names = [escaped(contributions.labels[index]) for index in shown]
    indices = shown.tolist()
    if len(rest):
        values.append(float(contributions.values[rest].sum()))
        names.append(f"{len(rest):,} others")
        indices.append(-1)

    colours = theme(template)
    target = f"“{escaped(contributions.token_text)}”"
    kind = "logit of"
    if contributions.versus >= 0:
        kind, target = "logit difference", f"{target} less “{escaped(contributions.versus_text)}”"
    cap = ""
    if contributions.model_logit != contributions.logit:
        cap = f" (after the soft cap {number(contributions.model_logit, 2)})"
    title = f"{kind} {target} after position {contributions.position} = {number(contributions.logit, 2)}{cap}"
    largest = max((abs(value) for value in values if np.isfinite(value)), default=0.0) or 1.0
    first = ", ".join(f"{name} {number(value, 2)}" for name, value in list(zip(names, values, strict=True))[:3])
    alt = f"Contributions to the {title}; the largest are {first}."
    fig = bare_figure(template, title=title, alt=alt, height=max(220, 110 + 22 * len(values)))
    fig.add_trace(
        go.Bar(
            x=values,
            y=list(range(len(values))),
            orientation="h",
            marker=dict(color=[colours.positive if value >= 0 else colours.negative for value in values]),
            text=[number(value, 2) for value in values],
            textposition="outside",
            cliponaxis=False,
            customdata=indices,
            hovertext=[f"{name}<br>{number(value)} logits" for name, value in zip(names, values, strict=True)],
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
        )
    )
    fig.update_xaxes(title="contribution (logits)", range=[-1.2 * largest, 1.2 * largest], zeroline=True)
    fig.update_xaxes(zerolinecolor=colours.ink, zerolinewidth=1)
    fig.update_yaxes(
        type="linear",
        tickmode="array",
        tickvals=list(range(len(values))),
        ticktext=names,
        range=[len(values) - 0.5, -0.5],
        showgrid=False,
    )
    return fig.update_layout(bargap=0.25)


def next_token_bars(
    tokens: Sequence[Label], probabilities: Sequence[float], *, chosen: int | None = None, template: str = "light"
) -> go.Figure:
    """The likeliest next tokens and their probabilities, in the order given; bar ``chosen`` stands out."""
    import plotly.graph_objects as go

    if len(tokens) != len(probabilities):
        raise ValueError(f"{len(tokens)} tokens for {len(probabilities)} probabilities.")
    colours = theme(template)
    names = [escaped(token, 24) for token in tokens]
    values = np.asarray(probabilities, dtype=float)
    marked = [index == chosen for index in range(len(names))]
    alt = "Next-token probabilities: " + ", ".join(f"{n} {number(p, 2)}" for n, p in zip(names, values, strict=True))
    fig = bare_figure(template, title="Next token", alt=alt, height=max(160, 90 + 24 * len(names)))
    fig.add_trace(
        go.Bar(
            x=values,
            y=np.arange(len(names)),
            orientation="h",
            marker=dict(color=[colours.negative if mark else colours.positive for mark in marked]),
            text=[f"{number(p)}{', chosen' if mark else ''}" for p, mark in zip(values, marked, strict=True)],
            textposition="outside",
            cliponaxis=False,
            hovertext=[f"“{name}”<br>probability {number(p, 4)}" for name, p in zip(names, values, strict=True)],
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
        )
    )
    fig.update_xaxes(title="probability", range=[0, 1.12], tickvals=[0, 0.25, 0.5, 0.75, 1])
    fig.update_yaxes(
        type="linear",
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )
    return fig.update_layout(bargap=0.25)
