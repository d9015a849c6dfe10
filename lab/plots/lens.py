"""The logit-lens grid: what the model would say after each layer, at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.plots.cells import heatmap
from lab.plots.theme import Label, bar_title, check_labels, escaped, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import LogitLens

TEXT_UP_TO = 48
"""Positions up to which each cell shows its first choice."""
BORDERS_UP_TO = 128
"""Positions up to which cells can carry a border; narrower ones would be nothing but border."""


@dataclass(frozen=True)
class Statistic:
    """How one statistic of the lens is drawn."""

    name: str
    low: float
    high: float
    log: bool = False


def _statistic(lens: LogitLens, statistic: str) -> Statistic:
    if statistic == "probability":
        return Statistic("probability of the final choice", 0.0, 1.0)
    if statistic == "rank":
        return Statistic("rank of the final choice, log scale", 0.0, float(np.log10(max(lens.n_vocab, 2))), log=True)
    if statistic == "entropy":
        return Statistic("entropy (nats)", 0.0, float(np.log(max(lens.n_vocab, 2))))
    if statistic == "kl":
        return Statistic(
            "KL to the output (nats)", 0.0, max(float(np.max(lens.kl, initial=0.0, where=np.isfinite(lens.kl))), 1e-6)
        )
    raise ValueError(f"statistic is {statistic!r}; known are probability, rank, entropy, kl.")


def lens_grid(
    lens: LogitLens,
    statistic: str = "probability",
    *,
    labels: Sequence[Label] | None = None,
    template: str = "light",
) -> go.Figure:
    """Rows are layers, the output at the top, columns positions; text is each cell's first choice.

    Colour is one statistic: "probability" or "rank" of the model's final choice, "entropy", or "kl" to the output.
    A border marks the cells whose first choice already is the final one, up to ``BORDERS_UP_TO`` positions.
    """
    drawn = _statistic(lens, statistic)
    tokens = [escaped(label, 14) for label in check_labels(labels, lens.token_texts)]
    raw = getattr(lens, statistic)
    values = np.log10(np.where(raw > 0, raw, np.nan)) if drawn.log else raw
    agrees = lens.top_tokens[:, :, 0] == lens.final_tokens[None, :]
    n_rows, n_pos = raw.shape

    def hover(row: int, pos: int) -> str:
        firsts = zip(lens.top_texts[row, pos], lens.top_probabilities[row, pos], strict=True)
        choices = "<br>".join(f"{number(p)}  “{escaped(text)}”" for text, p in firsts)
        return (
            f"after {lens.rows[row]}, position {pos} “{tokens[pos]}”<br>{choices}<br>"
            f"final choice “{escaped(lens.final_texts[pos])}”: probability {number(lens.probability[row, pos])}, "
            f"rank {lens.rank[row, pos]}<br>entropy {number(lens.entropy[row, pos])}, KL {number(lens.kl[row, pos])}"
        )

    cell_text = np.full(raw.shape, "", dtype=object)
    if n_pos <= TEXT_UP_TO:
        cell_text = np.vectorize(lambda text: escaped(text, 7), otypes=[object])(lens.top_texts[:, :, 0])
    fig = heatmap(
        values,
        x_labels=tokens,
        y_labels=list(lens.rows),
        what=drawn.name,
        x_title="position (the prediction is for the token after it)",
        y_title="read after layer",
        title=f"{lens.kind.capitalize()} logit lens"
        + ("; bordered: the final choice is already first" if n_pos <= BORDERS_UP_TO else ""),
        alt=f"{lens.kind.capitalize()} logit lens: {drawn.name} for {n_rows} rows (layers, the output at the top) "
        f"and {n_pos} positions; "
        f"{int(agrees.sum())} of {agrees.size} cells already have the final choice first.",
        low=drawn.low,
        high=drawn.high,
        cell_text=cell_text,
        hover=hover,
        upward=True,
        template=template,
    )
    if drawn.log:
        _rank_colourbar(fig, lens.n_vocab)
    if n_pos <= BORDERS_UP_TO:
        fig.add_trace(_borders(agrees, theme(template).negative))
    return fig.update_layout(height=max(260, 130 + 30 * n_rows))


def _rank_colourbar(fig: go.Figure, n_vocab: int) -> None:
    """Dark is a good rank; ticks are ranks, not their logarithms."""
    powers = list(range(int(np.log10(max(n_vocab, 1))) + 1))
    bar: dict[str, Any] = dict(tickmode="array", tickvals=powers, ticktext=[f"{10**p:,}" for p in powers])
    title = bar_title("rank of the final choice,", f"log scale, 1 to {n_vocab:,}")
    fig.data[0].update(reversescale=True, colorbar=dict(**bar, title=dict(text=title)))


def _borders(where: np.ndarray, colour: str) -> go.Scatter:
    """One line trace that draws a box inside every marked cell."""
    import plotly.graph_objects as go

    y, x = np.nonzero(where)
    reach = 0.44
    corners = ((-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach), (-reach, -reach), (np.nan, np.nan))
    xs = np.concatenate([x[:, None] + [dx for dx, _ in corners]]).ravel()
    ys = np.concatenate([y[:, None] + [dy for _, dy in corners]]).ravel()
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        line=dict(color=colour, width=1.6),
        hoverinfo="skip",
        name="final choice first",
        showlegend=False,
    )
