"""Planted truth: what every method finds in a network whose mechanism was put in by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lab.analysis import (
    LogitDifference,
    activation_patching,
    attribution_patching,
    circuit_faithfulness,
    head_scores,
    logit_contributions,
    path_patching,
    planted_induction,
)
from lab.analysis.planted import IDLE_HEADS, INDUCTION_HEAD, PREVIOUS_TOKEN_HEAD
from model import GPT
from tests.model.variants import tiny

# "7 2 5 ... 7" is to be continued with 2; in the corrupt prompt the 7 was followed by 4.
CLEAN = [1, 7, 2, 5, 9, 3, 8, 7]
CORRUPT = [1, 7, 4, 5, 9, 3, 8, 7]
METRIC = LogitDifference(answer=2, wrong=4)


@pytest.fixture(scope="module")
def planted() -> GPT:
    return planted_induction().double()


def strongest(values: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(np.nanargmax(np.abs(values)), values.shape))


def test_it_does_induction(planted):
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        period = torch.randperm(12, generator=generator)
        tokens = torch.cat([period, period])[None]
        with torch.no_grad():
            predicted = planted(tokens)[0].softmax(-1)
        right = predicted[12:-1].gather(-1, tokens[0, 13:, None])
        assert right.min() > 0.99


def test_head_scores_name_both_heads(planted):
    scores = head_scores(planted)
    assert scores.induction[INDUCTION_HEAD] > 0.99
    assert scores.previous_token[PREVIOUS_TOKEN_HEAD] > 0.99
    for head in IDLE_HEADS:
        assert scores.induction[head] < 0.01
        assert scores.previous_token[head] < 0.01


def test_contributions_name_the_induction_head(planted):
    parts = logit_contributions(planted, CLEAN, token=2, versus=4, by="head")
    assert parts.labels[parts.order()[0]] == "L1H0"
    others = [value for label, value in zip(parts.labels, parts.values, strict=True) if label != "L1H0"]
    assert np.abs(others).max() < 0.01 * parts.logit


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_patching_heads_names_the_head_that_answers(planted, direction):
    """The token after the first 7 reaches the answer through L1H0's value; L0H0 only says where to look."""
    grid = activation_patching(planted, CLEAN, CORRUPT, METRIC, site="head", direction=direction)
    assert grid.recovered[INDUCTION_HEAD] == pytest.approx(1, abs=0.01)
    rest = grid.recovered.copy()
    rest[INDUCTION_HEAD] = 0
    assert np.abs(rest).max() < 0.01


def test_patching_positions_follow_the_token_to_the_end(planted):
    grid = activation_patching(planted, CLEAN, CORRUPT, METRIC)
    assert grid.recovered[:, 2] == pytest.approx([1, 1], abs=0.01)  # until L1H0 fetches it, it is where it stands
    mid = activation_patching(planted, CLEAN, CORRUPT, METRIC, site="resid_mid")
    assert mid.recovered[0, 2] == pytest.approx(1, abs=0.01)
    assert mid.recovered[1, -1] == pytest.approx(1, abs=0.01)


# Here the two prompts differ in what the token to look for is: where to look matters, and both heads do.
MOVED_CLEAN = [1, 7, 2, 5, 6, 4, 8, 7]
MOVED_CORRUPT = [1, 6, 2, 5, 7, 4, 8, 7]


def test_patching_keys_names_both_heads_where_place_matters(planted):
    heads = activation_patching(planted, MOVED_CLEAN, MOVED_CORRUPT, METRIC, site="head")
    assert heads.recovered[PREVIOUS_TOKEN_HEAD] == pytest.approx(1, abs=0.02)
    assert heads.recovered[INDUCTION_HEAD] == pytest.approx(1, abs=0.02)
    for idle in IDLE_HEADS:
        assert abs(heads.recovered[idle]) < 0.01
    keys = activation_patching(planted, MOVED_CLEAN, MOVED_CORRUPT, METRIC, site="k")
    assert strongest(keys.effect) == INDUCTION_HEAD
    values = activation_patching(planted, MOVED_CLEAN, MOVED_CORRUPT, METRIC, site="v")
    assert strongest(values.effect) == PREVIOUS_TOKEN_HEAD
    assert abs(values.recovered[INDUCTION_HEAD]) < 0.01


def test_attribution_patching_names_the_same_heads(planted):
    exact = activation_patching(planted, CLEAN, CORRUPT, METRIC, site="head")
    estimate = attribution_patching(planted, CLEAN, CORRUPT, METRIC, site="head", exact=exact)
    assert strongest(estimate.effect) == INDUCTION_HEAD
    assert estimate.correlation > 0.99


def test_a_saturated_head_is_what_attribution_patching_misses():
    """The weights of a sharp head do not move for a small change: the gradient sees no L0H0, a soft one does."""
    found = {}
    for sharpness in (3.0, 12.0):
        model = planted_induction(sharpness=sharpness).double()
        exact = activation_patching(model, MOVED_CLEAN, MOVED_CORRUPT, METRIC, site="head")
        estimate = attribution_patching(model, MOVED_CLEAN, MOVED_CORRUPT, METRIC, site="head")
        found[sharpness] = estimate.effect[PREVIOUS_TOKEN_HEAD] / exact.effect[PREVIOUS_TOKEN_HEAD]
    assert found[3.0] > 0.3
    assert found[12.0] < 0.1


def test_path_patching_finds_the_path(planted):
    """L0H0 -> the key of L1H0 -> logits, and no other."""
    pair = (planted, MOVED_CLEAN, MOVED_CORRUPT, METRIC)
    to_logits = path_patching(*pair)
    assert to_logits.recovered[INDUCTION_HEAD] == pytest.approx(1, abs=0.02)
    assert abs(to_logits.recovered[PREVIOUS_TOKEN_HEAD]) < 0.01
    to_key = path_patching(*pair, receiver=(1, 0, "k"))
    assert to_key.recovered[PREVIOUS_TOKEN_HEAD] == pytest.approx(1, abs=0.02)
    assert abs(to_key.recovered[0, 1]) < 0.01
    assert np.isnan(to_key.values[1]).all()
    for part in ("q", "v"):
        other = path_patching(*pair, receiver=(1, 0, part))
        assert np.abs(other.recovered[0]).max() < 0.01


def test_the_circuit_is_faithful_and_the_rest_is_not(planted):
    pair = (planted, MOVED_CLEAN, MOVED_CORRUPT, METRIC)
    both = circuit_faithfulness(*pair, [PREVIOUS_TOKEN_HEAD, INDUCTION_HEAD])
    assert both.faithfulness == pytest.approx(1, abs=0.02)
    assert both.completeness == pytest.approx(1, abs=0.02)
    idle = circuit_faithfulness(*pair, IDLE_HEADS)
    assert idle.faithfulness == pytest.approx(0, abs=0.02)
    half = circuit_faithfulness(*pair, [INDUCTION_HEAD])
    assert half.faithfulness < 0.1
    for ablation, reference in (("zero", None), ("mean", [MOVED_CLEAN, MOVED_CORRUPT])):
        kept = circuit_faithfulness(
            *pair, [PREVIOUS_TOKEN_HEAD, INDUCTION_HEAD], ablation=ablation, reference=reference
        )
        assert kept.clean == both.clean
        assert kept.faithfulness > 0.9


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("through_mlps", [False, True])
def test_path_patching_is_its_definition(placement, through_mlps):
    """Against the four-pass recipe of Wang et al., written out for one sender and two receivers."""
    model = tiny(norm_placement=placement, n_layers=3, n_key_value_heads=2).double()
    clean, corrupt = torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([[3, 2, 4, 1, 6]])
    metric = LogitDifference(2, 11)
    sender, receivers = (0, 1), [(2, 3, "v"), (2, 0, "q")]
    found = path_patching(model, clean, corrupt, metric, receiver=receivers, through_mlps=through_mlps)
    with torch.no_grad():
        _, base = model.run_with_cache(corrupt)
        _, source = model.run_with_cache(clean)

        def swap(activation, hook):
            activation[:, :, sender[1]] = source[hook.name][:, :, sender[1]]
            return activation

        def hold(activation, hook):
            return base[hook.name]

        held = [f"blocks.{layer}.hook_attn_out" for layer in (1, 2)]
        if not through_mlps:
            held += [f"blocks.{layer}.hook_mlp_out" for layer in range(3)]
        stream = {}
        hooks = [("blocks.0.attn.hook_z", swap), *((name, hold) for name in held)]
        hooks.append(("blocks.2.hook_resid_pre", lambda x, hook: stream.update(at=x.clone())))
        model.run_with_hooks(corrupt, fwd_hooks=hooks)

        def give(unit):
            def put(x, hook):
                x[:, :, unit] = stream["at"]
                return x

            return put

        reads = [("blocks.2.hook_v_input", give(1)), ("blocks.2.hook_q_input", give(0))]
        logits = model.run_with_hooks(corrupt, fwd_hooks=reads)[0, -1]
    assert found.values[sender] == pytest.approx(float(logits[2] - logits[11]), abs=1e-10)
    assert np.isnan(found.values[2]).all()
    assert abs(found.effect[sender]) > 1e-4


def test_bad_receivers_and_circuits_are_refused():
    model = tiny()
    pair = (model, [1, 2, 3], [1, 2, 4], METRIC)
    for receiver, message in (
        ("logit", "did you mean 'logits'"),
        ((0, 1, "k"), "layer 0: no head writes before it"),
        ((1, 9, "k"), "Head 9 does not exist"),
        ((4, 0, "k"), "Layer 4 does not exist"),
        ((1, 0, "z"), "the receiver's input is 'z'"),
        ([], "No receiver is given"),
        ([(1, 0)], 'give "logits" or'),
    ):
        with pytest.raises(ValueError, match=message):
            path_patching(*pair, receiver=receiver)
    with pytest.raises(ValueError, match="no heads"):
        circuit_faithfulness(*pair, [])
    with pytest.raises(ValueError, match="ablation is 'resample'"):
        circuit_faithfulness(*pair, [(0, 0)], ablation="resample")
    with pytest.raises(ValueError, match="at least 3 tokens"):
        planted_induction(2)
