"""Attention: all heads at a glance, one head large, and one number a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.cells import HOVER_LIMIT, heatmap
from lab.plots.pixels import as_codes, palette, picture_uri
from lab.plots.theme import Label, bar_title, bare_figure, check_labels, escaped, integer_axis, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import AttentionPatterns, HeadScores

WEIGHT_NAMES = {"pattern": "attention", "value_weighted": "value-weighted attention"}
MOST_NAMED = 32
"""Tokens named along each side of one large head; of more every k-th is."""
SCORE_NAMES = {
    "induction": "induction score",
    "previous_token": "previous-token score",
    "duplicate_token": "duplicate-token score",
    "first_token": "weight on the first token",
    "entropy": "entropy (nats)",
}


def attention_mosaic(
    patterns: AttentionPatterns,
    *,
    weighting: str = "pattern",
    tile: int | None = 48,
    scores: HeadScores | None = None,
    template: str = "light",
) -> go.Figure:
    """Every head's pattern as one tile of a single picture: a column a head, a row a layer, later layers higher.

    In each tile rows are queries (destinations), first at the top, and columns keys (sources). A tile is at most
    ``tile`` cells wide: of a longer prompt each cell shows the largest weight of a block of positions, which the
    title says; None draws every position. Colours come in 255 steps; the numbers are in ``patterns``. An invisible
    marker a tile carries (layer, head) as ``customdata``, for clicks, and the head's name, with its ``scores`` if
    given, for hover.
    """
    import plotly.graph_objects as go

    n_layers, n_heads, n_pos, _ = patterns.pattern.shape
    block = 1 if tile is None else max(1, -(-n_pos // tile))
    shown = _largest_in_blocks(patterns, weighting, block)
    n_cells = shown.shape[-1]
    side, centre = n_cells + 1 + n_cells // 32, (n_cells - 1) / 2  # blank lines that show at any size
    codes = _tiles(as_codes(shown), side)
    what = WEIGHT_NAMES[weighting]
    note = "" if block == 1 else f", each cell the largest of {block} × {block} positions"
    title = f"{what.capitalize()}, all heads{note}"
    alt = (
        f"Mosaic of {what} for {n_layers} layers (rows, later ones higher) and {n_heads} heads (columns) over "
        f"{n_pos} tokens; in each tile rows are destinations and columns sources. Colour from 0 to 1{note}."
    )
    scale = theme(template).sequential
    fig = bare_figure(template, title=title, alt=alt, height=max(260, min(1000, 90 + 78 * n_layers)))
    fig.add_trace(go.Image(source=picture_uri(codes, palette(scale)), hoverinfo="skip", name=what))
    colorbar = dict(title=dict(text=bar_title(what, "0 to 1")), thickness=12, outlinewidth=0)
    fig.add_trace(_tile_targets(patterns, scores, side, centre))
    fig.data[1].hoverlabel.bgcolor = theme(template).positive
    fig.data[1].marker.update(cmin=0, cmax=1, colorscale=scale, colorbar=colorbar, showscale=True)

    heads = dict(tickvals=[h * side + centre for h in range(n_heads)], ticktext=[f"H{h}" for h in range(n_heads)])
    names = [f"L{layer}" for layer in patterns.layers[::-1]]
    layers = dict(tickvals=[row * side + centre for row in range(n_layers)], ticktext=names)
    # An image wants square pixels and a plot cut to them; tiles fill the width.
    shared = dict(type="linear", tickmode="array", showgrid=False, scaleanchor=False, constrain="range")
    fig.update_xaxes(**shared, **heads, title="head", range=[-0.5, codes.shape[1] - 0.5])
    fig.update_yaxes(**shared, **layers, title="layer", range=[codes.shape[0] - 0.5, -0.5])
    fig.update_layout(hoverdistance=-1)
    return fig


def _largest_in_blocks(patterns: AttentionPatterns, weighting: str, block: int) -> np.ndarray:
    """[layer, head, query, key] with each block x block square of positions replaced by its largest visible weight.

    NaN where a square holds none. A head at a time, rows before columns: of 144 heads the whole would be gigabytes.
    """
    weights = _weights(patterns, weighting)
    if block == 1:
        return np.where(patterns.masked, np.nan, weights)
    n_layers, n_heads, n, _ = weights.shape
    short = -n % block
    starts = range(0, n + short, block)
    largest = np.empty((n_layers, n_heads, len(starts), len(starts)), dtype=np.float32)
    padded = np.full((n + short, n + short), np.nan, dtype=weights.dtype)
    for layer in range(n_layers):
        for head in range(n_heads):
            np.copyto(padded[:n, :n], weights[layer, head], where=~patterns.masked)
            rows = np.fmax.reduce(padded.reshape(len(starts), block, -1), axis=1)
            columns = rows.reshape(len(starts), len(starts), block)
            np.fmax.reduce(columns, axis=2, out=largest[layer, head])
    return largest


def _tiles(x: np.ndarray, side: int) -> np.ndarray:
    """[layer, head, row, column] as one image, a tile every ``side`` cells, 0 between, the last layer on top."""
    n_layers, n_heads, n, _ = x.shape
    image = np.zeros((n_layers, side, n_heads, side), dtype=x.dtype)
    image[:, :n, :, :n] = x[::-1].transpose(0, 2, 1, 3)
    return image.reshape(n_layers * side, n_heads * side)[: n - side, : n - side]


def _tile_targets(patterns: AttentionPatterns, scores: HeadScores | None, side: int, centre: float) -> go.Scatter:
    """A marker over each tile to hover and click, and a sign on tiles that hold something that is no number."""
    import plotly.graph_objects as go

    n_heads = patterns.pattern.shape[1]
    sums = patterns.pattern.sum(axis=(2, 3))  # finite only where every weight is
    x, y, names, pairs, signs = [], [], [], [], []
    for row, layer in enumerate(patterns.layers[::-1].tolist()):
        for head in range(n_heads):
            x.append(head * side + centre)
            y.append(row * side + centre)
            pairs.append((layer, head))
            lines = [f"L{layer}H{head}"]
            if scores is not None:
                lines += [f"{name} {number(getattr(scores, key)[layer, head], 2)}" for key, name in SCORE_NAMES.items()]
            sound = np.isfinite(sums[-1 - row, head])
            signs.append("" if sound else "×")
            names.append("<br>".join(lines if sound else [*lines, "holds values that are not numbers"]))
    return go.Scatter(
        x=x,
        y=y,
        mode="markers+text",
        marker=dict(symbol="square", size=28, opacity=0),
        text=signs,
        textfont=dict(size=22),
        customdata=np.array(pairs),
        hovertext=names,
        hovertemplate="%{hovertext}<extra></extra>",
        name="heads",
        showlegend=False,
    )


def attention_head(
    patterns: AttentionPatterns,
    layer: int,
    head: int,
    *,
    weighting: str = "pattern",
    labels: Sequence[Label] | None = None,
    template: str = "light",
) -> go.Figure:
    """One head, large: rows are queries (destinations), columns keys (sources), the future blank."""
    row = _row_of(patterns, layer, head)
    tokens = [escaped(label, 14) for label in check_labels(labels, patterns.token_texts)]
    what = WEIGHT_NAMES.get(weighting, weighting)
    values = np.where(patterns.masked, np.nan, _weights(patterns, weighting)[row, head])
    n = len(tokens)

    def hover(query: int, key: int) -> str:
        return f"query {query} “{tokens[query]}” → key {key} “{tokens[key]}”<br>{what} {number(values[query, key])}"

    alt = (
        f"{what.capitalize()} of layer {layer} head {head} over {n} tokens: rows are destinations (queries), columns "
        f"sources (keys), colour from 0 to 1; the future is blank."
    )
    fig = heatmap(
        values,
        x_labels=tokens,
        y_labels=tokens,
        what=what,
        x_title="key: source position",
        y_title="query: destination position",
        title=f"L{layer}H{head}, {what}",
        alt=alt,
        low=0.0,
        high=1.0,
        masked=patterns.masked,
        hover=hover,
        square=True,
        template=template,
    )
    if n > MOST_NAMED:  # the square is seldom more than 400 pixels wide
        fig.update_xaxes(**integer_axis(tokens, MOST_NAMED)).update_yaxes(**integer_axis(tokens, MOST_NAMED))
    if n * n > HOVER_LIMIT:
        fig.data[0].hovertemplate = f"query %{{y}} → key %{{x}}<br>{what} %{{z}}<extra></extra>"
    return fig.update_layout(height=max(320, min(820, 160 + 22 * n)))


def _weights(patterns: AttentionPatterns, weighting: str) -> np.ndarray:
    if weighting not in WEIGHT_NAMES:
        raise ValueError(f"weighting is {weighting!r}; known are {', '.join(WEIGHT_NAMES)}.")
    weights: np.ndarray = getattr(patterns, weighting)
    return weights


def _row_of(patterns: AttentionPatterns, layer: int, head: int) -> int:
    if layer not in patterns.layers:
        raise ValueError(f"Layer {layer} is not among the layers shown: {', '.join(map(str, patterns.layers))}.")
    n_heads = patterns.pattern.shape[1]
    if not 0 <= head < n_heads:
        raise ValueError(f"Head {head} does not exist: give 0 to {n_heads - 1}.")
    return patterns.layers.tolist().index(layer)


def head_score_map(scores: HeadScores, measure: str = "induction", *, template: str = "light") -> go.Figure:
    """One score of every head, a column a head and a row a layer, later layers higher; cells can be clicked."""
    if measure not in SCORE_NAMES:
        raise ValueError(f"measure is {measure!r}; known are {', '.join(SCORE_NAMES)}.")
    values = getattr(scores, measure)
    n_layers, n_heads = values.shape
    name, chance = SCORE_NAMES[measure], scores.chance[measure]
    most = float(np.log(scores.tokens.shape[1])) if measure == "entropy" else 1.0

    def hover(layer: int, head: int) -> str:
        return f"L{layer}H{head}<br>{name} {number(values[layer, head])}<br>chance {number(chance)}"

    return heatmap(
        values,
        x_labels=[f"H{head}" for head in range(n_heads)],
        y_labels=[f"L{layer}" for layer in range(n_layers)],
        what=name,
        x_title="head",
        y_title="layer",
        title=f"{name[0].upper()}{name[1:]} (chance {number(chance, 2)})",
        alt=f"{name} of {n_heads} heads (columns) in {n_layers} layers (rows, later ones higher); chance is "
        f"{number(chance)}.",
        low=0.0,
        high=most or 1.0,
        hover=hover,
        upward=True,
        selectable=True,
        template=template,
    )
