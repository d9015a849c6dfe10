"""Patching: every grid is what patching one place at a time gives, and TransformerLens' numbers on the same weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lab import plots
from lab.analysis import (
    Logit,
    LogitDifference,
    LogProbability,
    Scale,
    activation_patching,
    apply,
    attribution_patching,
    path_patching,
)
from lab.analysis.patching import PATCH_SITES
from lab.analysis.sites import PATTERN, SITES
from lab.tokenizers import train_tokenizer
from model import GPT
from tests.model.variants import tiny

CLEAN = [3, 1, 4, 1, 5, 9, 2, 6]
CORRUPT = [3, 1, 7, 1, 5, 8, 2, 6]
METRIC = LogitDifference(answer=2, wrong=11)
VARIANTS = {
    "pre": {},
    "post": dict(norm_placement="post"),
    "sandwich": dict(norm_placement="sandwich", normalization_type="RMS"),
    "rotary": dict(positional_embedding_type="rotary", qk_norm=True, n_key_value_heads=2, gated_mlp=True),
    "alibi window": dict(positional_embedding_type="alibi", attention_window=3, logit_soft_cap=5.0),
}


def one_at_a_time(model: GPT, site: str, *, each_position: bool, clean=CLEAN, corrupt=CORRUPT, at: int = -1):
    """The definition: for each patch a whole forward pass with one hook that puts the clean activation in."""
    clean, corrupt = torch.tensor([clean]), torch.tensor([corrupt])
    place = PATTERN if site == "pattern" else SITES[site]
    n_units = place.n_units(model.config)
    shape = [model.config.n_layers, *([n_units] if place.units else []), *([clean.shape[1]] if each_position else [])]
    values = np.zeros(shape)
    with torch.no_grad():
        _, cache = model.run_with_cache(clean)
        for index in np.ndindex(*shape):
            layer, *rest = index
            unit = rest.pop(0) if place.units else slice(None)
            position = rest.pop(0) if each_position else slice(None)
            point = place.point(layer)

            def put(activation, hook, unit=unit, position=position):
                if place is PATTERN:
                    activation[:, unit, position] = cache[hook.name][:, unit, position]
                elif place.units:
                    activation[:, position, unit] = cache[hook.name][:, position, unit]
                else:
                    activation[:, position] = cache[hook.name][:, position]
                return activation

            logits = model.run_with_hooks(corrupt, fwd_hooks=[(point, put)])
            values[index] = logits[0, at, METRIC.answer] - logits[0, at, METRIC.wrong]
    return values


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("site", "each_position"),
    [("resid_pre", True), ("resid_mid", True), ("resid_post", True), ("mlp_out", True), ("attn_out", False),
     ("head", False), ("head", True), ("q", False), ("k", True), ("v", True),
     ("pattern", False), ("pattern", True), ("neuron", False), ("neuron", True)],
)  # fmt: skip
def test_a_grid_is_one_patch_at_a_time(variant, site, each_position):
    model = tiny(**VARIANTS[variant]).double()
    grid = activation_patching(model, CLEAN, CORRUPT, METRIC, site=site, each_position=each_position)
    assert np.abs(grid.values - one_at_a_time(model, site, each_position=each_position)).max() < 1e-10
    assert np.ptp(grid.values) > 1e-3


def test_small_batches_give_the_same(monkeypatch):
    model = tiny().double()
    whole = activation_patching(model, CLEAN, CORRUPT, METRIC, site="head", each_position=True)
    monkeypatch.setattr("lab.analysis.restarts.TOKENS_AT_ONCE", 7)
    assert np.abs(whole.values - activation_patching(
        model, CLEAN, CORRUPT, METRIC, site="head", each_position=True).values).max() < 1e-12  # fmt: skip


def test_components_are_attention_and_mlp_of_every_layer():
    model = tiny().double()
    both = activation_patching(model, CLEAN, CORRUPT, METRIC, site="component")
    assert both.labels() == ["L0 attn", "L0 mlp", "L1 attn", "L1 mlp"]
    for offset, site in enumerate(("attn_out", "mlp_out")):
        one = activation_patching(model, CLEAN, CORRUPT, METRIC, site=site)
        assert np.allclose(both.values[offset::2], one.values, atol=1e-12)


def test_the_ends_of_the_scale():
    model = tiny().double()
    grid = activation_patching(model, CLEAN, CORRUPT, METRIC, each_position=False)
    logits = {
        name: model(torch.tensor([ids]))[0, -1].detach() for name, ids in (("clean", CLEAN), ("corrupt", CORRUPT))
    }
    assert grid.clean == pytest.approx(float(logits["clean"][2] - logits["clean"][11]), abs=1e-10)
    assert grid.corrupt == pytest.approx(float(logits["corrupt"][2] - logits["corrupt"][11]), abs=1e-10)
    assert np.allclose(grid.recovered, 1)  # the whole stream is the whole run
    back = activation_patching(model, CLEAN, CORRUPT, METRIC, each_position=False, direction="noise")
    assert np.allclose(back.values, grid.corrupt)
    assert np.allclose(back.recovered, 1)
    swapped = activation_patching(model, CORRUPT, CLEAN, METRIC, site="head", direction="noise")
    forward = activation_patching(model, CLEAN, CORRUPT, METRIC, site="head")
    assert np.allclose(swapped.values, forward.values, atol=1e-12)


def test_a_position_before_the_prompts_differ_or_after_the_metric_reads_moves_nothing():
    model = tiny().double()
    metric = LogitDifference(2, 11, position=5)
    grid = activation_patching(model, CLEAN, CORRUPT, metric)
    assert (grid.values[:, :2] == grid.corrupt).all()
    assert (grid.values[:, 6:] == grid.corrupt).all()
    assert np.abs(grid.values - one_at_a_time(model, "resid_pre", each_position=True, at=5)).max() < 1e-10


@pytest.mark.parametrize(
    "metric",
    [
        Logit(2),
        LogProbability(2, position=6),
        lambda logits: logits[-1, 2] - logits[-1, 11],
        lambda logits: logits.log_softmax(-1)[2:7, 3].mean(),
    ],
    ids=["logit", "log p", "function", "function of all positions"],
)
def test_every_kind_of_metric(metric):
    model = tiny().double()
    grid = activation_patching(model, CLEAN, CORRUPT, metric, site="resid_mid")
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.tensor([CLEAN]))

        def put(activation, hook):
            activation[:, 5] = cache[hook.name][:, 5]
            return activation

        logits = model.run_with_hooks(torch.tensor([CORRUPT]), fwd_hooks=[("blocks.1.hook_resid_mid", put)])[0]
    wanted = {Logit: lambda: logits[-1, 2], LogProbability: lambda: logits[6].log_softmax(-1)[2]}.get(
        type(metric), lambda: metric(logits)
    )()
    assert grid.values[1, 5] == pytest.approx(float(wanted), abs=1e-10)
    estimate = attribution_patching(model, CLEAN, CORRUPT, metric, site="resid_mid", exact=grid)
    assert -1 <= estimate.correlation <= 1


def test_progress_is_told_and_cancelling_keeps_what_is_done():
    model = tiny()
    told = []
    whole = activation_patching(model, CLEAN, CORRUPT, METRIC, progress=lambda done, all_: told.append((done, all_)))
    assert told[-1] == (12, 12)  # positions 2 to 7 of two layers; before those nothing can change
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert not whole.cancelled

    answers = iter([False, True])
    part = activation_patching(model, CLEAN, CORRUPT, METRIC, cancel=lambda: next(answers))
    assert part.cancelled
    assert np.isnan(part.values).sum() == 10
    known = ~np.isnan(part.values)
    assert np.allclose(part.values[known], whole.values[known], atol=1e-6)
    json.loads(part.to_json(), parse_constant=pytest.fail)


def test_the_users_own_interventions_act_in_every_patch():
    model = tiny().double()
    effect = Scale("head", 0, head=1, factor=4, position=-2)
    with apply(model, effect):
        grid = activation_patching(model, CLEAN, CORRUPT, METRIC, site="resid_mid")
        wanted = one_at_a_time(model, "resid_mid", each_position=True)
    assert np.abs(grid.values - wanted).max() < 1e-10
    bare = activation_patching(model, CLEAN, CORRUPT, METRIC, site="resid_mid")
    assert np.abs(grid.values - bare.values).max() > 1e-3


def test_patching_changes_nothing_of_the_model():
    model = tiny(resid_dropout=0.5).train()
    before = torch.get_rng_state()
    activation_patching(model, CLEAN, CORRUPT, METRIC, site="head")
    attribution_patching(model, CLEAN, CORRUPT, METRIC, site="head")
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.refresh_watch()


@pytest.mark.parametrize("site", ["resid_pre", "component", "head", "v"])
@pytest.mark.parametrize("each_position", [False, True])
def test_attribution_is_the_derivative_of_patching(site, each_position):
    """For a small difference between the prompts the first order is all there is: shrink it through the embedding."""
    model = tiny().double()
    with torch.no_grad():
        for a, b in ((4, 7), (9, 8)):
            model.embed.weight[a] = model.embed.weight[b] + 1e-5 * torch.randn(16, dtype=torch.float64)
    options = dict(site=site, each_position=each_position)
    exact = activation_patching(model, CLEAN, CORRUPT, METRIC, **options)
    estimate = attribution_patching(model, CLEAN, CORRUPT, METRIC, exact=exact, **options)
    assert np.abs(exact.effect).max() > 1e-7
    assert np.allclose(estimate.effect, exact.effect, rtol=1e-3, atol=1e-9)
    if estimate.values.size > 2:  # the whole stream at once has one and the same effect in both layers
        assert estimate.correlation > 0.9999
    assert estimate.method == "attribution"


def test_attribution_needs_no_trainable_weights():
    model = tiny().double()
    wanted = attribution_patching(model, CLEAN, CORRUPT, METRIC, site="head").values
    model.requires_grad_(False)
    assert np.allclose(attribution_patching(model, CLEAN, CORRUPT, METRIC, site="head").values, wanted, atol=1e-12)


def test_bad_input_is_explained():
    model = tiny()
    model.tokenizer = train_tokenizer("word", "one two three four five")
    pair = ("one two three", "one two four")
    with pytest.raises(ValueError, match=r"clean has 3 \(.*two.*\), corrupt 4 \(.*five.*\)"):
        activation_patching(model, "one two three", "one two four five", METRIC)
    with pytest.raises(ValueError, match="answer ' two three' is 2 tokens"):
        activation_patching(model, *pair, LogitDifference(" two three", " three"))
    with pytest.raises(ValueError, match="same token"):
        activation_patching(model, *pair, LogitDifference(2, 2))
    with pytest.raises(ValueError, match="same tokens: there is nothing to patch"):
        activation_patching(model, pair[0], pair[0], METRIC)
    with pytest.raises(ValueError, match=r"returned \[3\] numbers for one prompt"):
        activation_patching(model, *pair, lambda logits: logits[:, 0])
    with pytest.raises(ValueError, match="Layer 5 does not exist"):
        activation_patching(model, *pair, METRIC, layers=[5])
    with pytest.raises(ValueError, match="site is 'heads'; did you mean 'head'"):
        activation_patching(model, *pair, METRIC, site="heads")
    with pytest.raises(ValueError, match="direction is 'denoising'; did you mean 'denoise'"):
        activation_patching(model, *pair, METRIC, direction="denoising")
    with pytest.raises(ValueError, match="Position 3 is outside the prompt of 3 tokens"):
        activation_patching(model, *pair, Logit(1, position=3))
    with pytest.raises(ValueError, match="The metric is 'logit'"):
        activation_patching(model, *pair, "logit")
    exact = activation_patching(model, *pair, METRIC, site="head")
    with pytest.raises(ValueError, match="differs in site: 'head' and not 'v'"):
        attribution_patching(model, *pair, METRIC, site="v", exact=exact)


def test_a_table_and_names():
    grid = activation_patching(tiny(), CLEAN, CORRUPT, METRIC, site="head")
    table = grid.to_frame()
    assert list(table.columns) == ["layer", "component", "head", "value", "effect", "recovered"]
    assert len(table) == 8
    name, effect = grid.top(1)[0]
    layer, head = np.unravel_index(np.abs(grid.effect).argmax(), grid.effect.shape)
    assert name == f"L{layer}H{head}"
    assert effect == pytest.approx(grid.effect[layer, head])


def gpt2_shaped(**shape) -> GPT:
    return tiny(act_fn="gelu_new", **shape)


def their_grids(model: GPT, clean, corrupt, metric: LogitDifference) -> dict[str, np.ndarray]:
    """TransformerLens' own patching on the same weights."""
    from transformer_lens import patching

    from lab.bench.references import bridge

    theirs = bridge(model)
    clean, corrupt = torch.tensor([clean]), torch.tensor([corrupt])

    def read(logits):
        return logits[0, -1, metric.answer] - logits[0, -1, metric.wrong]

    with torch.no_grad():
        _, cache = theirs.run_with_cache(clean)
        return {
            "resid_pre": patching.get_act_patch_resid_pre(theirs, corrupt, cache, read).numpy(),
            "head": patching.get_act_patch_attn_head_out_all_pos(theirs, corrupt, cache, read).numpy(),
        }


def test_transformer_lens_has_the_same_numbers():
    model = gpt2_shaped()
    theirs = their_grids(model, CLEAN, CORRUPT, METRIC)
    for site, values in theirs.items():
        grid = activation_patching(model, CLEAN, CORRUPT, METRIC, site=site)
        assert np.abs(grid.values - values).max() < 1e-4


def test_neurons_and_patterns_have_names_tables_and_figures():
    from lab.plots import patching_grid

    model = tiny(d_mlp=80)
    grid = activation_patching(model, CLEAN, CORRUPT, METRIC, site="neuron")
    assert grid.axes == ("layer", "neuron")
    assert grid.values.shape == (2, 80)
    layer, neuron = np.unravel_index(np.abs(grid.effect).argmax(), grid.effect.shape)
    assert grid.top(1)[0][0] == f"L{layer}N{neuron}"
    assert len(grid.to_frame()) == 160
    figure = patching_grid(grid)
    assert "48 of 80" in figure.layout.xaxis.title.text
    shown = [int(name.removeprefix("N")) for name in figure.layout.xaxis.ticktext]
    assert neuron in shown
    assert np.abs(np.delete(grid.effect, shown, axis=1)).max() <= np.abs(grid.effect[:, shown]).max(0).min()
    looks = activation_patching(model, CLEAN, CORRUPT, METRIC, site="pattern", each_position=True)
    assert looks.axes == ("layer", "head", "position")
    assert patching_grid(looks).data[0].z.shape == (2 * model.config.n_heads, len(CLEAN))


@pytest.mark.parametrize("receiver", [(), [], 5, [5], (1, 0), [(1, 0)], (1, 0, "k", 0), None, [[]], ("q",), [None]])
def test_a_receiver_that_is_none_is_refused_in_a_sentence(receiver):
    with pytest.raises(ValueError, match=r"receiver"):
        path_patching(tiny(), CLEAN, CORRUPT, LogitDifference(1, 2), receiver=receiver)


@pytest.mark.parametrize("site", PATCH_SITES)
@pytest.mark.parametrize("each_position", [None, True, False])
def test_every_grid_has_a_figure(site, each_position):
    grid = activation_patching(tiny(), CLEAN, CORRUPT, LogitDifference(1, 2), site=site, each_position=each_position)
    for quantity in ("recovered", "effect", "values"):
        assert plots.patching_grid(grid, quantity).data
    assert len(grid.to_frame()) == grid.values.size


@pytest.mark.parametrize("site", PATCH_SITES)
@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_what_is_read_before_the_prompts_differ_is_moved_by_no_patch(site, direction):
    metric = LogitDifference(1, 2, position=0)
    grid = activation_patching(tiny(), CLEAN, CORRUPT, metric, site=site, direction=direction)
    assert not grid.effect.any()


@pytest.mark.parametrize("where", ["block", "block before", "attention", "every module"])
@pytest.mark.parametrize("site", ["resid_pre", "head", "mlp_out"])
def test_torch_hooks_of_the_users_act_in_every_patch(where, site):
    """One that carries something from position to position: no patch may then be started along the prompt."""
    model = tiny()
    block = model.blocks[1]

    def shift(module, inputs, output):
        return output + output.cumsum(1) if module in (block, block.attn) else None

    def shift_before(module, inputs):
        return (inputs[0] + inputs[0].cumsum(1), *inputs[1:])

    attach = {
        "block": lambda: block.register_forward_hook(shift),
        "block before": lambda: block.register_forward_pre_hook(shift_before),
        "attention": lambda: block.attn.register_forward_hook(shift),
        "every module": lambda: torch.nn.modules.module.register_module_forward_hook(shift),
    }
    metric = LogitDifference(1, 2)
    handle = attach[where]()
    try:
        grid = activation_patching(model, CLEAN, CORRUPT, metric, site=site, layers=0, each_position=True)
        point = SITES[site].point(0)
        given = model.run_with_cache(torch.tensor([CLEAN]), names_filter=point)[1][point]
        for position in (2, 5, 7):

            def put(activation, hook, at=position):
                changed = activation.clone()
                if site == "head":
                    changed[:, at, 0] = given[:, at, 0]
                else:
                    changed[:, at] = given[:, at]
                return changed

            with torch.no_grad():
                logits = model.run_with_hooks(torch.tensor([CORRUPT]), fwd_hooks=[(point, put)])[0, -1]
            value = grid.values[0, 0, position] if site == "head" else grid.values[0, position]
            assert value == pytest.approx(float(logits[1] - logits[2]), abs=1e-4)
    finally:
        handle.remove()
