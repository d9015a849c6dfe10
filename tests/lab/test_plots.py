"""Figures draw the numbers they are given, show tokens literally, and hide nothing in a colour."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import subprocess
import sys
import time

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

import lab.plots as plots
from lab.analysis import attention_patterns, head_scores, logit_contributions, logit_lens
from lab.analysis import residual_norms as measure_norms
from lab.analysis.attention import AttentionPatterns, hidden
from lab.tokenizers import SymbolTokenizer, token_labels, train_tokenizer
from model import GPT, GPTConfig

TEXT = "<b>x</b> </script> $a$ :red[b] & <br> &amp;"


@pytest.fixture(scope="module")
def model() -> GPT:
    tokenizer = train_tokenizer("char", TEXT)
    model = GPT(
        GPTConfig(d_vocab=tokenizer.vocab_size, n_ctx=64, d_model=16, n_layers=3, n_heads=2, init_std=0.4)
    ).eval()
    model.tokenizer = tokenizer
    return model


@pytest.fixture(scope="module")
def words() -> GPT:
    """A model whose tokens are whole pieces of mark-up."""
    tokenizer = SymbolTokenizer(["<b>", "</b>", "</script>", "<br>", "&amp;", "$a$", ":red[b]", "x", "&", " "])
    model = GPT(GPTConfig(d_vocab=tokenizer.vocab_size, n_ctx=64, d_model=16, n_layers=2, n_heads=2, init_std=0.4))
    model.tokenizer = tokenizer
    return model.eval()


def all_figures(model: GPT, text: str, template: str = "light") -> dict[str, go.Figure]:
    attention, scores = attention_patterns(model, text), head_scores(model)
    lens, contributions = logit_lens(model, text), logit_contributions(model, text, by="head", versus=0)
    metrics = [{"step": i, "tokens": i, "seconds": i, "train_loss": 3 - i / 9, "val_loss": 3 - i / 9} for i in range(9)]
    return {
        "lens": plots.lens_grid(lens, template=template),
        "rank": plots.lens_grid(lens, "rank", template=template),
        "mosaic": plots.attention_mosaic(attention, scores=scores, template=template),
        "head": plots.attention_head(attention, 1, 0, template=template),
        "scores": plots.head_score_map(scores, template=template),
        "contributions": plots.contribution_bars(contributions, template=template),
        "norms": plots.residual_norms(measure_norms(model, text), template=template),
        "loss": plots.loss_curves({"runs/<a>": metrics}, checkpoints={"runs/<a>": [0, 4]}, template=template),
        "next": plots.next_token_bars(lens.top_texts[-1, -1], lens.top_probabilities[-1, -1], template=template),
    }


def z_of(fig: go.Figure) -> np.ndarray:
    return np.asarray(fig.data[0].z, dtype=float)


# --- every figure ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["light", "dark"])
def test_every_figure_says_what_it_shows_and_fits_both_themes(model, template):
    for name, fig in all_figures(model, TEXT, template).items():
        assert len(fig.layout.meta["alt"]) > 20, name
        assert fig.layout.paper_bgcolor == fig.layout.plot_bgcolor == "rgba(0,0,0,0)", name
        assert fig.layout.font.color == {"light": "#1b1f24", "dark": "#e6e9ee"}[template]
        for axis in (fig.layout.xaxis, fig.layout.yaxis):
            assert axis.type in (None, "linear", "log"), f"{name}: a category axis merges equal labels"
        json.loads(fig.to_json(), parse_constant=pytest.fail)


def test_every_figure_works_for_one_token(model):
    for fig in all_figures(model, "x").values():
        fig.to_json()


@pytest.mark.filterwarnings("error")
def test_every_figure_works_for_a_diverged_model(model):
    import copy

    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.blocks[0].mlp.w_out.weight.fill_(torch.nan)
    figures = all_figures(broken, "x & x")
    for name in ("lens", "rank", "head", "scores", "mosaic"):
        marks = [trace for trace in figures[name].data if trace.type == "scatter" and "×" in (trace.text or ())]
        assert marks, name
    for fig in figures.values():
        json.loads(fig.to_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize("draw", ["lens_grid", "attention_mosaic"])
def test_an_unknown_template_is_refused(model, draw):
    result = logit_lens(model, "x") if draw == "lens_grid" else attention_patterns(model, "x")
    with pytest.raises(ValueError, match="known are light, dark"):
        getattr(plots, draw)(result, template="drak")


def strings(value) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    return [text for item in value for text in strings(item)] if isinstance(value, (list, tuple)) else []


def test_no_token_reaches_a_figure_unescaped(words):
    """The only tags are our own line breaks (and plotly's <extra>); every < of a token is an entity."""
    for name, fig in all_figures(words, TEXT).items():
        shown = [text for text in strings(json.loads(fig.to_json())) if text != fig.layout.meta["alt"]]
        for text in shown:
            tags = set(re.findall(r"<[^>]*>", plain(text))) - {"<br>", "<extra>", "</extra>"}
            assert not tags, (name, text)
        for text in strings([axis.ticktext or () for axis in (fig.layout.xaxis, fig.layout.yaxis)]):
            assert "<" not in text, (name, text)


# --- heatmap ---------------------------------------------------------------------------------------------------


def plain(cell: str) -> str:
    """A cell's text without its ink."""
    return re.sub(r"<span style='color:#(000000|ffffff)'>|</span>", "", cell)


def draw(values, **changes):
    values = np.asarray(values, dtype=float)
    settings = dict(
        x_labels=["a"] * values.shape[1],
        y_labels=["b"] * values.shape[0],
        what="w",
        x_title="x",
        y_title="y",
        title="t",
        alt="a",
    )
    return plots.heatmap(values, **{**settings, **changes})


def test_equal_labels_stay_separate_columns():
    fig = draw([[1, 2, 3, 4, 5]], x_labels=["the", "cat", "the", "cat", "the"])
    assert z_of(fig).shape == (1, 5)
    assert list(fig.layout.xaxis.tickvals) == [0, 1, 2, 3, 4]
    assert list(fig.layout.xaxis.ticktext) == ["the", "cat", "the", "cat", "the"]


def test_the_range_is_stated_and_symmetric_about_zero():
    fig = draw([[-3, 1]], colours="diverging")
    assert (fig.data[0].zmin, fig.data[0].zmax) == (-3, 3)
    assert fig.data[0].colorbar.title.text.split("<br>")[:2] == ["w", "−3 to 3"]
    fig = draw([[0.2, 0.7]])
    assert (fig.data[0].zmin, fig.data[0].zmax) == pytest.approx((0, 0.7))
    flat = draw([[0, 0]], colours="diverging")
    assert (flat.data[0].zmin, flat.data[0].zmax) == (-1, 1)


def test_what_is_no_number_or_beyond_the_range_is_marked():
    values = [[np.nan, np.inf, -np.inf], [5, -5, 0.5]]
    masked = np.zeros((2, 3), dtype=bool)
    fig = draw(values, colours="diverging", high=1.0, masked=masked)
    marks = {trace.text[0]: (trace.y[0], trace.x[0]) for trace in fig.data[1:]}
    assert marks == {"×": (0, 0), "∞": (0, 1), "−∞": (0, 2)}
    assert np.isnan(z_of(fig)[0]).all()
    assert [plain(cell) for cell in fig.data[0].text[1]] == ["▲5.00", "▼−5.00", "0.50"]
    blank = draw(values, colours="diverging", high=1.0, masked=np.isnan(values))
    assert "×" not in {trace.text[0] for trace in blank.data[1:]}, "masked is blank, not a fault"


def test_large_maps_mark_clipping_without_numbers():
    values = np.zeros((20, 20))
    assert draw(values).data[0].text is None
    values[3, 4] = 9
    text = np.array(draw(values, high=1.0).data[0].text)
    assert plain(text[3, 4]) == "▲" and (text != "").sum() == 1


def test_numbers_are_printed_below_15_by_15():
    assert plain(draw(np.full((14, 14), 0.25)).data[0].text[0][0]) == "0.25"
    assert draw(np.full((14, 15), 0.25)).data[0].text is None


def test_selectable_cells_carry_their_indices():
    fig = draw([[1, 2], [3, 4]], selectable=True)
    assert fig.data[-1].customdata.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert (fig.data[-1].y[1], fig.data[-1].x[1]) == (0, 1) and fig.data[-1].marker.opacity == 0


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="2 row and 1 column labels"):
        draw([[1, 2]], x_labels=["a"], y_labels=["b", "c"])
    with pytest.raises(ValueError, match="these have shape"):
        plots.heatmap(np.zeros((0, 3)), x_labels=[], y_labels=[], what="", x_title="", y_title="", title="", alt="")
    with pytest.raises(ValueError, match="known are sequential, diverging"):
        draw([[1]], colours="rainbow")


# --- attention -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["pattern", "value_weighted"])
def test_one_head_is_its_tensor_with_the_future_blank(model, weighting):
    patterns = attention_patterns(model, "x & x & x")
    fig = plots.attention_head(patterns, 2, 1, weighting=weighting)
    z, values = z_of(fig), getattr(patterns, weighting)[2, 1]
    n = len(values)
    assert np.isnan(z[np.triu_indices(n, 1)]).all()
    lower = np.tril_indices(n)
    assert z[lower] == pytest.approx(values[lower], abs=1e-7)
    assert (fig.data[0].zmin, fig.data[0].zmax) == (0, 1)
    assert "query" in fig.layout.yaxis.title.text and "key" in fig.layout.xaxis.title.text
    assert fig.layout.yaxis.range[0] > fig.layout.yaxis.range[1], "the first query is on top"
    hover = fig.data[0].hovertext[4][2]
    assert "query 4 “x”" in hover and "key 2 “&amp;”" in hover and f"{values[4, 2]:.3f}" in hover
    assert fig.data[0].hovertext[2][4] == ""


def test_heads_that_do_not_exist_are_refused(model):
    patterns = attention_patterns(model, "x", layers=[1])
    with pytest.raises(ValueError, match="Layer 0 is not among the layers shown: 1"):
        plots.attention_head(patterns, 0, 0)
    with pytest.raises(ValueError, match="Head 2 does not exist: give 0 to 1"):
        plots.attention_head(patterns, 1, 2)
    with pytest.raises(ValueError, match="2 given for 1 positions"):
        plots.attention_head(patterns, 1, 0, labels=["a", "b"])


def codes_of(fig: go.Figure) -> np.ndarray:
    """The mosaic's colour codes: 0 blank, 1 to 255 for 0 to 1."""
    (image,) = [trace for trace in fig.data if trace.type == "image"]
    head, data = image.source.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def seen(codes: np.ndarray) -> np.ndarray:
    """The weights that colour codes stand for, to within half a step."""
    return np.where(codes == 0, np.nan, (codes - 1.0) / 254)


HALF_A_STEP = 0.5 / 254 + 1e-6


def test_the_mosaic_holds_every_head_in_its_place(model):
    patterns = attention_patterns(model, "x & x & x")
    fig = plots.attention_mosaic(patterns)
    z = seen(codes_of(fig))
    side = 10
    assert z.shape == (3 * side - 1, 2 * side - 1)
    for layer in range(3):
        for head in range(2):
            top, left = (2 - layer) * side, head * side
            tile = z[top : top + 9, left : left + 9]
            assert tile == pytest.approx(patterns.display()[layer, head], abs=HALF_A_STEP, nan_ok=True)
    assert np.isnan(z[9]).all() and np.isnan(z[:, 9]).all()
    assert fig.layout.yaxis.ticktext == ("L2", "L1", "L0") and fig.layout.xaxis.ticktext == ("H0", "H1")
    targets = fig.data[1]
    for (layer, head), x, y in zip(targets.customdata.tolist(), targets.x, targets.y, strict=True):
        assert y == (2 - layer) * side + 4 and x == head * side + 4


def big_patterns(n_layers=12, n_heads=12, n=256) -> AttentionPatterns:
    pattern = np.random.default_rng(0).random((n_layers, n_heads, n, n), dtype=np.float32)
    pattern *= ~hidden(n, None)
    pattern /= pattern.sum(-1, keepdims=True)
    ids = np.arange(n)
    texts = tuple(map(str, ids))
    return AttentionPatterns(pattern, pattern, pattern[:, :, 0], hidden(n, None), np.arange(n_layers), ids, texts)


def test_144_heads_of_256_tokens_are_quick_and_light():
    patterns = big_patterns()
    start = time.perf_counter()
    payload = len(plots.attention_mosaic(patterns).to_json())
    assert time.perf_counter() - start < 2.5
    assert payload < 400_000


def test_a_block_shows_its_largest_weight_and_says_so():
    patterns = big_patterns(1, 1, 100)
    fig = plots.attention_mosaic(patterns, tile=48)
    z, pattern = seen(codes_of(fig)), patterns.pattern[0, 0]
    assert z.shape == (34, 34) and "3 × 3 positions" in fig.layout.title.text
    largest = [pattern[15:18, 6:9].max(), pattern[99, 0:3].max(), pattern[15:18, 15:18].max()]
    assert [z[5, 2], z[33, 0], z[5, 5]] == pytest.approx(largest, abs=HALF_A_STEP)
    assert np.isnan(z[2, 5])


def test_every_position_is_drawn_when_asked_for():
    patterns = big_patterns(3, 3, 350)
    z = seen(codes_of(plots.attention_mosaic(patterns, tile=None)))
    last = patterns.display()[2, 0]  # the last layer is on top
    assert z[:350, :350] == pytest.approx(last, abs=HALF_A_STEP, nan_ok=True)


@pytest.mark.parametrize("template", ["light", "dark"])
def test_the_mosaic_has_the_colours_of_its_bar_from_0_to_1(template):
    patterns = big_patterns(1, 1, 5)
    patterns.pattern[0, 0, 4] = [0, 0.25, 0.5, 1, 0]
    fig = plots.attention_mosaic(patterns, template=template)
    picture = Image.open(io.BytesIO(base64.b64decode(fig.data[0].source.split(",")[1]))).convert("RGBA")
    bar = fig.data[1].marker
    assert bar.showscale and (bar.cmin, bar.cmax) == (0, 1) and "0 to 1" in bar.colorbar.title.text
    named = [tuple(bytes.fromhex(colour[1:])) for _, colour in bar.colorscale]
    for key, weight in enumerate((0, 0.25, 0.5, 1)):
        *colour, opaque = picture.getpixel((key, 4))
        at = weight * (len(named) - 1)
        low, high = named[int(at)], named[min(int(at) + 1, len(named) - 1)]
        between = [a + (b - a) * (at - int(at)) for a, b in zip(low, high, strict=True)]
        assert opaque == 255 and colour == pytest.approx(between, abs=2)
    assert picture.getpixel((4, 0))[3] == 0, "the future is blank"


def test_the_mosaic_refuses_a_weighting_it_does_not_know():
    with pytest.raises(ValueError, match="weighting is 'patern'; known are pattern, value_weighted"):
        plots.attention_mosaic(big_patterns(1, 1, 4), weighting="patern")


def test_a_head_of_no_numbers_is_marked():
    patterns = big_patterns(1, 2, 4)
    patterns.pattern[0, 1, 3, 0] = np.nan
    fig = plots.attention_mosaic(patterns)
    assert fig.data[1].text == ("", "×") and "not numbers" in fig.data[1].hovertext[1]


def test_head_scores_are_drawn_as_they_are(model):
    scores = head_scores(model)
    for measure in ("induction", "entropy"):
        fig = plots.head_score_map(scores, measure)
        assert z_of(fig) == pytest.approx(getattr(scores, measure), abs=1e-6)
        assert fig.layout.yaxis.range[0] < fig.layout.yaxis.range[1], "later layers higher"
        assert f"chance {scores.chance[measure]:.2f}" in fig.layout.title.text
    with pytest.raises(ValueError, match="known are induction"):
        plots.head_score_map(scores, "inductoin")


def test_a_score_that_could_not_be_measured_is_marked(model):
    fig = plots.head_score_map(head_scores(model, [1, 2]))
    assert fig.data[1].text[0] == "×" and len(fig.data[1].x) == 6


# --- lens ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", ["probability", "entropy", "kl"])
def test_the_lens_grid_holds_the_statistic(model, statistic):
    lens = logit_lens(model, "x & x")
    fig = plots.lens_grid(lens, statistic)
    assert z_of(fig) == pytest.approx(getattr(lens, statistic), abs=1e-6)
    assert fig.layout.yaxis.range[0] < fig.layout.yaxis.range[1], "the output is on top"
    assert fig.layout.yaxis.ticktext == ("embed", "L0", "L1", "L2")


def test_ranks_are_on_a_log_scale_with_ranks_at_its_ticks(model):
    lens = logit_lens(model, "x & x")
    fig = plots.lens_grid(lens, "rank")
    assert z_of(fig) == pytest.approx(np.log10(lens.rank), abs=1e-6)
    assert fig.data[0].colorbar.ticktext[0] == "1" and fig.data[0].colorbar.ticktext[1] == "10"
    with pytest.raises(ValueError, match="known are probability"):
        plots.lens_grid(lens, "logit")


def test_borders_mark_where_the_final_choice_is_first(model):
    lens = logit_lens(model, "x & x")
    fig = plots.lens_grid(lens)
    border = next(trace for trace in fig.data if trace.name == "final choice first")
    x, y = np.array(border.x).reshape(-1, 6)[:, :5], np.array(border.y).reshape(-1, 6)[:, :5]
    cells = {(round(float(a)), round(float(b))) for a, b in zip(y.mean(1), x.mean(1), strict=True)}
    expected = {(r, p) for r in range(4) for p in range(5) if lens.top_tokens[r, p, 0] == lens.final_tokens[p]}
    assert cells == expected and {(3, p) for p in range(5)} <= cells


def test_token_labels_can_be_handed_over(model):
    ids = model.tokenizer.encode("x<b>")
    labels = token_labels(model.tokenizer, ids)
    fig = plots.lens_grid(logit_lens(model, ids), labels=labels)
    assert fig.layout.xaxis.ticktext == tuple(label.html for label in labels)


# --- bars ------------------------------------------------------------------------------------------------------


def test_bars_sum_to_the_logit(model):
    result = logit_contributions(model, TEXT, by="neuron")
    fig = plots.contribution_bars(result, top=12)
    bar = fig.data[0]
    assert len(bar.x) == 13 and sum(bar.x) == pytest.approx(result.logit, abs=1e-4)
    assert bar.customdata[-1] == -1 and f"{len(result.values) - 12:,} others" in fig.layout.yaxis.ticktext
    for value, index in zip(bar.x[:-1], bar.customdata[:-1], strict=True):
        assert value == result.values[index]
    colours = {np.sign(value): colour for value, colour in zip(bar.x, bar.marker.color, strict=True)}
    assert colours[1.0] == "#1f5fa8" and colours[-1.0] == "#d9730d"
    low, high = fig.layout.xaxis.range
    assert low == -high
    with pytest.raises(ValueError, match="at least 1"):
        plots.contribution_bars(result, top=0)


def test_few_components_are_all_shown(model):
    result = logit_contributions(model, "x")
    fig = plots.contribution_bars(result, top=len(result.values) - 1)
    assert sorted(fig.data[0].x) == sorted(result.values), "one component is not hidden behind '1 other'"


def test_next_token_bars(model):
    fig = plots.next_token_bars(["<b>", " "], [0.75, 0.25], chosen=1)
    assert list(fig.data[0].x) == [0.75, 0.25]
    assert fig.layout.yaxis.ticktext[0] == "&lt;b&gt;"
    assert "chosen" in fig.data[0].text[1] and fig.data[0].marker.color[0] != fig.data[0].marker.color[1]
    with pytest.raises(ValueError, match="2 tokens for 1 probabilities"):
        plots.next_token_bars(["a", "b"], [1.0])


# --- curves ----------------------------------------------------------------------------------------------------


def test_losses_are_drawn_with_gaps_where_they_are_not_numbers():
    metrics = [
        {"step": 0, "train_loss": None, "val_loss": 4.0},
        {"step": 1, "train_loss": 3.0, "val_loss": None},
        {"step": 2, "train_loss": None, "val_loss": None},
        {"step": 3, "train_loss": 2.0, "val_loss": 2.5},
        {"event": "not a metric"},
    ]
    fig = plots.loss_curves({"a": metrics, "b": metrics[:1], "c": []})
    by_name = {trace.name: trace for trace in fig.data}
    train, val = by_name["a train"], by_name["a val"]
    assert np.array_equal(train.y, [np.nan, 3, np.nan, 2], equal_nan=True) and not train.connectgaps
    assert list(val.x) == [0, 3] and list(val.y) == [4, 2.5]
    assert val.line.width > train.line.width and val.line.color == train.line.color
    assert by_name["b val"].line.color != val.line.color
    assert "a 2.500" in fig.layout.meta["alt"] and "c: no loss yet" in fig.layout.meta["alt"]
    with pytest.raises(ValueError, match="known are step"):
        plots.loss_curves({"a": metrics}, x="epoch")


def test_checkpoints_are_marked_on_the_curve():
    metrics = [{"step": i, "tokens": 10 * i, "train_loss": 5.0 - i, "val_loss": None} for i in range(4)]
    fig = plots.loss_curves({"a": metrics}, x="tokens", checkpoints={"a": [2, 99]})
    marks = next(trace for trace in fig.data if trace.name == "a checkpoints")
    assert marks.x == (20,) and marks.y == (3.0,) and list(marks.customdata) == [2]


def test_thinning_keeps_ends_extremes_and_gaps():
    n = 100_000
    x = np.arange(n, dtype=float)
    y = np.sin(x / 500) + 5
    y[41_234], y[77_777] = 50.0, -50.0
    y[60_000:60_003] = np.nan
    xs, ys = plots.decimate(x, y)
    assert len(xs) <= 2000 and (np.diff(xs) > 0).all()
    assert (xs[0], xs[-1]) == (0, n - 1)
    assert {50.0, -50.0} <= set(ys) and np.isnan(ys).any()
    assert all(y[int(a)] == b or (math.isnan(y[int(a)]) and math.isnan(b)) for a, b in zip(xs, ys, strict=True))
    short = plots.decimate(x[:2000], y[:2000])
    assert np.array_equal(short[0], x[:2000]), "2000 points are sent as they are"
    all_nan = plots.decimate(x, np.full(n, np.nan))
    assert len(all_nan[0]) <= 2000


def test_norms_are_drawn_layer_by_layer(model):
    norms = measure_norms(model, TEXT)
    fig = plots.residual_norms(norms, position=-1)
    by_name = {trace.name: trace for trace in fig.data}
    stream = by_name["stream"]
    expected = [norms.resid_pre[0, -1]]
    for layer in range(3):
        expected += [norms.resid_mid[layer, -1], norms.resid_post[layer, -1]]
    assert list(stream.y) == expected and list(stream.x) == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert list(by_name["MLP update"].y) == norms.mlp_out[:, -1].tolist()
    assert "cosine with the stream" in by_name["attention update"].hovertext[0]
    middle = plots.residual_norms(norms)
    assert middle.data[0].y[-1] == np.median(norms.resid_post[-1])
    with pytest.raises(ValueError, match="outside the prompt"):
        plots.residual_norms(norms, position=99)


# --- export ----------------------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else(words):
    page = plots.to_offline_html(all_figures(words, TEXT), "A </title><script>alert(1)</script>", note="<i>")
    assert "<script src=" not in page and "<link" not in page
    assert "A &lt;/title&gt;&lt;script&gt;alert(1)" in page and "&lt;i&gt;" in page
    assert page.count('"showSendToCloud": false') == 9 and '"displaylogo": false' in page
    assert page.count("aria-label=") == 9
    # a token </script> inside the figures' data would end the script it stands in
    assert page.count("</script>") == page.count("<script")


def test_numbers_survive_the_export(model):
    result = logit_contributions(model, "x & x")
    page = plots.to_offline_html(plots.contribution_bars(result))
    assert repr(float(result.values[result.order()[0]])) in page


def test_the_page_in_a_browser(words, browser, tmp_path):
    """Offline: no request but the page itself; tokens that look like mark-up are read as text; nothing runs."""
    path = tmp_path / "figures.html"
    path.write_text(plots.to_offline_html(all_figures(words, TEXT), "Figures"), encoding="utf-8")
    requests, errors = [], []
    page = browser.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 18", timeout=60_000)
    head = page.locator("figure").nth(3)
    ticks = head.locator(".xaxislayer-above text, .xtick text").all_text_contents()
    page.close()
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    assert not errors
    result = attention_patterns(words, TEXT)
    expected = [text if len(text) <= 14 else f"{text[:13]}…" for text in result.token_texts]
    assert ticks == expected


def test_numbers_fit_their_cells():
    from lab.plots.theme import cell_number

    values = {0.0034: "0", -0.0034: "0", 0.126: "0.13", 1.0: "1.00", -12.34: "−12.3", 1234.5: "1234.50"}
    assert {value: cell_number(value) for value in values} == values


def test_importing_the_package_does_not_import_plotly():
    code = "import sys, lab.plots; assert not {'plotly', 'torch', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert all(hasattr(plots, name) for name in plots.__all__)
    assert callable(plots.heatmap) and torch.get_num_threads() >= 1
