"""Attention: all heads at a glance, one head large, and one number a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.plots.cells import HOVER_LIMIT, heatmap
from lab.plots.theme import CLEAR, Label, Scale, bar_title, bare_figure, check_labels, escaped, number, theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import AttentionPatterns, HeadScores

WEIGHT_NAMES = {"pattern": "attention", "value_weighted": "value-weighted attention"}
QUANTISED_ABOVE = 1_000_000
"""Cells above which a mosaic is sent as bytes, 1/254 a step, a quarter of the size."""
CODES = 255
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
    """Every head's pattern as one tile of a single heatmap: a column a head, a row a layer, later layers higher.

    In each tile rows are queries (destinations), first at the top, and columns keys (sources). A tile is at most
    ``tile`` cells wide: of a longer prompt each cell shows the largest weight of a block of positions, which the
    title says; None draws every position. An invisible marker a tile carries (layer, head) as ``customdata``, for
    clicks, and the head's name, with its ``scores`` if given, for hover.
    """
    import plotly.graph_objects as go

    n_layers, n_heads, n_pos, _ = patterns.pattern.shape
    block = 1 if tile is None else max(1, -(-n_pos // tile))
    shown = _largest_in_blocks(patterns.display(weighting), block)
    n_cells = shown.shape[-1]
    side, centre = n_cells + 1 + n_cells // 32, (n_cells - 1) / 2  # blank lines that show at any size
    z = _tiles(shown, side)
    what = WEIGHT_NAMES[weighting]
    note = "" if block == 1 else f", each cell the largest of {block} × {block} positions"
    title = f"{what.capitalize()}, all heads{note}"
    alt = (
        f"Mosaic of {what} for {n_layers} layers (rows, later ones higher) and {n_heads} heads (columns) over "
        f"{n_pos} tokens; in each tile rows are destinations and columns sources. Colour from 0 to 1{note}."
    )
    fig = bare_figure(template, title=title, alt=alt, height=max(260, min(1000, 90 + 78 * n_layers)))
    colorbar = dict(title=dict(text=bar_title(what, "0 to 1")), thickness=12, outlinewidth=0)
    scale, high = theme(template).sequential, 1
    if z.size > QUANTISED_ABOVE:
        z, scale = _as_bytes(z, scale)
        high = CODES
        colorbar |= dict(tickmode="array", tickvals=[1, 128, CODES], ticktext=["0", "0.5", "1"])
    fig.add_trace(go.Heatmap(z=z, zmin=0, zmax=high, colorscale=scale, colorbar=colorbar, hoverinfo="skip", name=what))
    _add_tile_targets(fig, patterns, scores, side, centre)

    heads = dict(tickvals=[h * side + centre for h in range(n_heads)], ticktext=[f"H{h}" for h in range(n_heads)])
    names = [f"L{layer}" for layer in patterns.layers[::-1]]
    layers = dict(tickvals=[row * side + centre for row in range(n_layers)], ticktext=names)
    shared = dict(type="linear", tickmode="array", showgrid=False)
    fig.update_xaxes(**shared, **heads, title="head", range=[-0.5, z.shape[1] - 0.5])
    fig.update_yaxes(**shared, **layers, title="layer", range=[z.shape[0] - 0.5, -0.5])
    fig.update_layout(hoverdistance=-1)
    return fig


def _largest_in_blocks(x: np.ndarray, block: int) -> np.ndarray:
    """[layer, head, query, key] with each block x block square of positions replaced by its largest visible weight."""
    if block == 1:
        return x
    n = x.shape[-1]
    short = -n % block
    x = np.pad(x, ((0, 0), (0, 0), (0, short), (0, short)), constant_values=np.nan)
    blocks = x.reshape(*x.shape[:2], (n + short) // block, block, (n + short) // block, block)
    return np.fmax.reduce(np.fmax.reduce(blocks, axis=5), axis=3)


def _tiles(x: np.ndarray, side: int) -> np.ndarray:
    """[layer, head, row, column] as one image, a tile every ``side`` cells, blank between, the last layer on top."""
    n_layers, n_heads, n, _ = x.shape
    image = np.full((n_layers, side, n_heads, side), np.nan, dtype=np.float32)
    image[:, :n, :, :n] = x[::-1].transpose(0, 2, 1, 3)
    return image.reshape(n_layers * side, n_heads * side)[: n - side, : n - side]


def _as_bytes(z: np.ndarray, scale: Scale) -> tuple[np.ndarray, Scale]:
    """(codes, colour scale): 1 to 255 for 0 to 1, and a clear colour at 0 for blank cells.

    Blank is 0 and not 255 because it is the commonest code: 255 is a slash in base64, and plotly writes each slash
    of a page's JSON as six characters.
    """
    codes = np.where(np.isnan(z), 0, 1 + np.rint(np.clip(z, 0, 1) * (CODES - 1))).astype(np.uint8)
    first = 1 / CODES
    squeezed = [(first + at * (1 - first), colour) for at, colour in scale]
    return codes, [(0.0, CLEAR), (first - 1e-4, CLEAR), *squeezed]


def _add_tile_targets(
    fig: go.Figure, patterns: AttentionPatterns, scores: HeadScores | None, side: int, centre: float
) -> None:
    """A marker over each tile to hover and click, and a sign on tiles that hold something that is no number."""
    import plotly.graph_objects as go

    n_heads = patterns.pattern.shape[1]
    x, y, names, pairs, signs = [], [], [], [], []
    for row, layer in enumerate(patterns.layers[::-1].tolist()):
        for head in range(n_heads):
            x.append(head * side + centre)
            y.append(row * side + centre)
            pairs.append((layer, head))
            lines = [f"L{layer}H{head}"]
            if scores is not None:
                lines += [f"{name} {number(getattr(scores, key)[layer, head], 2)}" for key, name in SCORE_NAMES.items()]
            sound = np.isfinite(patterns.pattern[-1 - row, head]).all()
            signs.append("" if sound else "×")
            names.append("<br>".join(lines if sound else [*lines, "holds values that are not numbers"]))
    fig.add_trace(
        go.Scatter(
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
    values = patterns.display(weighting)[row, head]
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
    if n * n > HOVER_LIMIT:
        fig.data[0].hovertemplate = f"query %{{y}} → key %{{x}}<br>{what} %{{z}}<extra></extra>"
    return fig.update_layout(height=max(320, min(820, 160 + 22 * n)))


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
