"""Colours, the bare figure, and text that a figure may hold: what all figures share.

Blue and orange stay apart for colour-blind eyes. Backgrounds are transparent; ``template`` ("light" or "dark")
chooses ink and colour scales that read on the page's own background.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # noqa: F401  plotly takes it as it finds it among the modules, half imported by another thread, too

from lab.tokenizers.labels import TokenLabel, to_html

if TYPE_CHECKING:
    import plotly.graph_objects as go

Scale = list[tuple[float, str]]
Label = TokenLabel | str | int
"""How a figure names a token: its ``TokenLabel``, or display text (``result.token_texts``), not yet escaped."""

CLEAR = "rgba(0,0,0,0)"
ALLOWED = dict(ticklabeloverflow="allow")
"""Else plotly measures every tick label once more for whether it leaves the figure, a third of the time it draws."""
AXIS = dict(title=dict(standoff=10), **ALLOWED)
"""The room is between tick labels and the title; without it a title lies over long labels."""


def _even(colours: str) -> Scale:
    names = colours.split()
    return [(index / (len(names) - 1), name) for index, name in enumerate(names)]


@dataclass(frozen=True)
class Theme:
    """Ink, lines, categorical colours, and the two colour scales of a template."""

    ink: str
    faint: str
    positive: str
    negative: str
    lines: tuple[str, ...]
    sequential: Scale
    diverging: Scale


THEMES = {
    "light": Theme(
        ink="#1b1f24",
        faint="rgba(120,130,145,0.28)",
        positive="#1f5fa8",
        negative="#d9730d",
        lines=("#1f5fa8", "#d9730d", "#4c8f8a", "#8a6bb1", "#6b7280", "#79a7d9", "#f0ab5b"),
        sequential=_even("#f4f8fc #dce9f6 #c0d8ee #9dc2e3 #76a9d6 #508ec6 #3375b3 #1f5fa8 #15467f #0d2f57"),
        diverging=_even("#8f4300 #b85a06 #d9730d #eca65d #f8dcbc #f5f6f8 #d5e4f3 #94bbe0 #508ec6 #1f5fa8 #0d2f57"),
    ),
    "dark": Theme(
        ink="#e6e9ee",
        faint="rgba(150,160,175,0.28)",
        positive="#6ea8e5",
        negative="#f2994a",
        lines=("#6ea8e5", "#f2994a", "#6fbdb6", "#b79be0", "#9aa3b0", "#a9cdf3", "#f7c98b"),
        sequential=_even("#1b2027 #182a40 #1b3c63 #205086 #2a65a7 #3f7dc2 #5c97d7 #80b3e7 #aacff3 #d9ebfb"),
        diverging=_even("#ffc38a #f2994a #cf7422 #8f4e14 #4a3018 #232830 #1c3350 #26588f #3f7dc2 #6ea8e5 #b5d7f7"),
    ),
}


def theme(template: str) -> Theme:
    """The colours of "light" or "dark"."""
    if template not in THEMES:
        raise ValueError(f"template is {template!r}; known are {', '.join(THEMES)}.")
    return THEMES[template]


def _template() -> go.layout.Template:
    """What every axis and colour bar of a figure has, also those that are added later."""
    import plotly.graph_objects as go

    bar = dict(colorbar=ALLOWED)
    return go.layout.Template(layout=dict(xaxis=AXIS, yaxis=AXIS), data=dict(heatmap=[bar], scatter=[dict(marker=bar)]))


def bare_figure(template: str, *, title: str, alt: str, height: int) -> go.Figure:
    """An empty figure. ``title`` is escaped already; ``alt`` says in words what is seen (``layout.meta["alt"]``)."""
    import plotly.graph_objects as go

    ink = theme(template).ink
    fig = go.Figure()
    fig.update_layout(
        template=_template(),
        title=dict(text=title, font=dict(size=15), x=0, xref="paper", xanchor="left", yref="container", y=0.97),
        font=dict(color=ink, size=12),
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        colorway=list(theme(template).lines),
        margin=dict(l=60, r=20, t=52, b=50),
        height=height,
        hovermode="closest",
        hoverlabel=dict(align="left"),
        modebar=dict(bgcolor=CLEAR, color=theme(template).faint, activecolor=ink),  # else grey boxes over the title
        meta={"alt": alt},
        uirevision="keep",  # zoom survives new data
    )
    fig.update_xaxes(automargin=True, zeroline=False, gridcolor=theme(template).faint)
    fig.update_yaxes(automargin=True, zeroline=False, gridcolor=theme(template).faint)
    fig.update_yaxes(ticks="outside", ticklen=4, tickcolor=CLEAR)  # a little room between names and bars
    return fig


def escaped(label: Label, longest: int | None = None) -> str:
    """A label as plotly and HTML show it literally; cut to ``longest`` characters, with a sign that it was."""
    text = label.display if isinstance(label, TokenLabel) else str(label)
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 1]}…"
    return to_html(text)


def check_labels(labels: Sequence[Label] | None, default: Sequence[Label], what: str = "labels") -> list[Label]:
    """``labels``, or ``default`` without them. ValueError when their number is not that of the data."""
    if labels is None:
        return list(default)
    if len(labels) != len(default):
        raise ValueError(f"{what}: {len(labels)} given for {len(default)} positions.")
    return list(labels)


LEGEND_BELOW = dict(orientation="h", yref="container", y=0.0, yanchor="bottom")
"""A legend under the axis title, whatever the height of the figure; it wants ``LEGEND_MARGIN`` below the plot."""
LEGEND_MARGIN = dict(b=96)


def number(value: float, digits: int = 3) -> str:
    """A value for hover and titles: plain where it is readable, exponents where not."""
    value = float(value)
    if value != value:
        return "not a number"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    if value == 0 or 10**-digits <= abs(value) < 10**5:
        return f"{value:.{digits}f}".replace("-", "−")
    return f"{value:.{digits - 1}e}".replace("-", "−")


def cell_number(value: float) -> str:
    """A value in four characters or so, for the inside of a cell; what rounds to 0 is "0", hover has the digits."""
    if not 0 <= abs(value) < 100:
        return number(value, 2)
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return "0" if float(text) == 0 else text.replace("-", "−")


def bar_title(*lines: str) -> str:
    """The title of a colour bar; its last line is empty, for the topmost tick label reaches above the bar."""
    return "<br>".join((*lines, "&nbsp;"))  # the character itself is trimmed away


def log_axis(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """A logarithmic axis for ``values`` whose every label is a whole number: plotly's own writes 2 for 0.02 and 20."""
    at = np.asarray(values, dtype=float).ravel()
    at = at[np.isfinite(at) & (at > 0)]
    decades = float(np.log10(at.max() / at.min())) if len(at) else 0.0
    return dict(type="log", tickformat="~g", dtick="D2" if 0.85 < decades < 3 else None)


def limit(value: float) -> str:
    """The end of a colour range, as short as three digits allow."""
    return f"{value:.3g}".replace("-", "−")


def integer_axis(labels: Sequence[str], most: int = 48) -> dict[str, Any]:
    """An axis of whole positions with text at them: equal texts stay apart. Beyond ``most`` every k-th is written."""
    step = max(1, -(-len(labels) // most))
    ticks = list(range(0, len(labels), step))
    return dict(type="linear", tickmode="array", tickvals=ticks, ticktext=[labels[tick] for tick in ticks])
