"""Ablate, scale, patch, steer, knock out: each against what it is defined to be, in forward passes and generation."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lab.analysis import Ablate, KnockOut, Patch, Scale, Steer, apply, intervention_effect
from lab.analysis.sites import SITES
from model import GPT
from tests.model.variants import tiny

PLACEMENTS = ("pre", "post", "sandwich")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def run(model: GPT, interventions, names=None, ids=None):
    """(logits [pos, vocab], cache) with interventions; a cache hook is attached after them and sees their edits."""
    ids = torch.tensor([IDS if ids is None else ids])
    with torch.no_grad(), apply(model, interventions):
        logits, cache = model.run_with_cache(ids, names_filter=names or ["hook_embed"])
    return logits[0], cache


def plain(model: GPT, ids=None) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([IDS if ids is None else ids]))[0]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("site", SITES)
def test_a_scale_of_one_changes_nothing_bit_for_bit(placement, site):
    model = tiny(norm_placement=placement)
    effect = Scale(site, factor=1.0)
    with torch.no_grad(), apply(model, effect):
        logits = model(torch.tensor([IDS]))[0]
    assert torch.equal(logits, plain(model))


@pytest.mark.parametrize("site", SITES)
def test_every_site_is_changed_where_and_only_where_it_was_asked(site):
    model = tiny()
    units = {"head": {"head": 1}, "neuron": {"neuron": [3, 5]}}.get(SITES[site].units or "", {})
    point = SITES[site].point(1)
    before = run(model, [], [point])[1][point][0]
    after = run(model, Scale(site, 1, factor=3.0, position=[2, -1], **units), [point])[1][point][0]
    wanted = before.clone()
    chosen = next(iter(units.values()), slice(None))
    if units:
        wanted[[2, 7]] = wanted[[2, 7]].index_copy(
            1, torch.tensor(chosen).reshape(-1), 3 * before[[2, 7]][:, torch.tensor(chosen).reshape(-1)]
        )
    else:
        wanted[[2, 7]] *= 3
    assert torch.equal(after, wanted)
    assert not torch.equal(run(model, Scale(site, 1, factor=3.0, position=[2, -1], **units))[0], plain(model))


def test_ablating_a_head_takes_its_result_out_of_attn_out():
    model = tiny().double()
    names = ["blocks.0.hook_attn_out", "blocks.0.attn.hook_z"]
    _, cache = run(model, [], names)
    _, without = run(model, Ablate("head", 0, head=2), names)
    result = cache[names[1]][0, :, 2] @ model.blocks[0].attn.W_O[2]
    assert torch.allclose(without[names[0]][0], cache[names[0]][0] - result, atol=1e-12)


def test_mean_and_resample_read_their_reference():
    model = tiny()
    reference = [[7, 8, 9], [2, 2, 5, 6]]
    point = "blocks.1.hook_mlp_out"
    pool = torch.cat([run(model, [], [point], ids)[1][point][0] for ids in reference])
    mean = run(model, Ablate("mlp_out", 1, method="mean", reference=reference), [point])[1][point][0]
    assert torch.allclose(mean, pool.mean(0).expand_as(mean), atol=1e-6)

    drawn = run(model, Ablate("mlp_out", 1, method="resample", reference=reference), [point])[1][point][0]
    distances = torch.cdist(drawn, pool)
    assert distances.min(-1).values.max() < 1e-5
    assert len(set(distances.argmin(-1).tolist())) > 1
    again = run(model, Ablate("mlp_out", 1, method="resample", reference=reference), [point])[1][point][0]
    other = run(model, Ablate("mlp_out", 1, method="resample", reference=reference, seed=1), [point])[1][point][0]
    assert torch.equal(drawn, again)
    assert not torch.equal(drawn, other)


def test_patching_the_whole_stream_gives_the_other_prompt():
    model = tiny()
    other = IDS[::-1]
    for layer in range(2):
        logits, _ = run(model, Patch("resid_pre", layer, source=other))
        assert torch.allclose(logits, plain(model, other), atol=1e-6)
    logits, _ = run(model, Patch("head", 1, head=0, source=IDS))
    assert torch.allclose(logits, plain(model), atol=1e-6)


def test_a_value_is_put_in_and_must_fit():
    model = tiny()
    point = "blocks.0.attn.hook_z"
    value = torch.arange(4.0)
    got = run(model, Patch("head", 0, head=3, position=1, value=value), [point])[1][point][0]
    assert torch.equal(got[1, 3], value)
    with pytest.raises(ValueError, match=r"shape \[5\] does not fit head.*\[4, 4\]"):
        run(model, Patch("head", 0, value=torch.zeros(5)))


def test_steering_adds_the_direction():
    model = tiny()
    direction = torch.randn(16, generator=torch.Generator().manual_seed(0))
    point = "blocks.0.hook_resid_post"
    before, after = (run(model, effect, [point])[1][point][0] for effect in ([], Steer(direction, 0, strength=2.5)))
    assert torch.equal(after, before + 2.5 * direction)
    assert torch.equal(
        run(model, Steer(direction.numpy(), 0, strength=2.5))[0], run(model, Steer(direction, 0, strength=2.5))[0]
    )


def test_knocked_out_attention_is_nought_and_the_rest_sums_to_one():
    model = tiny()
    point = "blocks.1.attn.hook_pattern"
    before = run(model, [], [point])[1][point][0]
    after = run(model, KnockOut(key=[1, 2], query=5, layer=1, head=0), [point])[1][point][0]
    assert (after[0, 5, [1, 2]] == 0).all()
    assert after[0, 5].sum() == pytest.approx(1)
    kept = before[0, 5, [0, 3, 4, 5]]
    assert torch.allclose(after[0, 5, [0, 3, 4, 5]], kept / kept.sum(), atol=1e-6)
    rest = torch.ones_like(before, dtype=torch.bool)
    rest[0, 5] = False
    assert torch.equal(after[rest], before[rest])


def test_a_query_with_nothing_left_to_look_at_reads_nothing():
    model = tiny()
    pattern = run(model, KnockOut(key=0), ["blocks.0.attn.hook_pattern"])[1]["blocks.0.attn.hook_pattern"][0]
    assert (pattern[:, :, 0] == 0).all()
    assert torch.isfinite(pattern).all()
    assert torch.allclose(pattern[:, 1:].sum(-1), torch.ones(4, 7))


def test_cutting_every_path_from_a_token_hides_it():
    """Past positions differ only through attention: with it cut, another token there changes nothing later."""
    model = tiny()
    other = [IDS[0], 20, *IDS[2:]]
    cut = KnockOut(key=1, query=range(2, 8))
    a, b = run(model, cut)[0], run(model, cut, ids=other)[0]
    assert torch.equal(a[2:], b[2:])
    assert not torch.equal(plain(model)[2:], plain(model, other)[2:])


def test_interventions_act_in_their_order():
    model = tiny()
    point = "blocks.0.hook_mlp_out"
    value = torch.ones(16)
    first = run(model, [Patch("mlp_out", 0, value=value), Scale("mlp_out", 0, factor=2)], [point])[1][point]
    last = run(model, [Scale("mlp_out", 0, factor=2), Patch("mlp_out", 0, value=value)], [point])[1][point]
    assert (first == 2).all()
    assert (last == 1).all()


@pytest.mark.parametrize("positions", ["standard", "rotary", "alibi"])
@pytest.mark.parametrize(
    "effect",
    [
        Ablate("head", 0, head=1),
        Ablate("mlp_out", method="resample", reference=[IDS]),
        Scale("neuron", 1, neuron=[0, 4], factor=-4, position=[1, 3, 9]),
        Steer(torch.linspace(-3, 3, 16), 0, position=10),
        KnockOut(key=[0, 2], query=range(3, 16)),
        Patch("resid_mid", 0, source=[1, 1, 1, 1]),
    ],
    ids=lambda effect: effect.describe(),
)
def test_generation_with_a_cache_is_generation_without(positions, effect):
    """A step that reads one token knows where it stands in the text."""
    model = tiny(positional_embedding_type=positions, init_std=0.6)
    with apply(model, effect):
        cached = model.generate(torch.tensor([IDS[:5]]), 9, temperature=0)
        whole = model.generate(torch.tensor([IDS[:5]]), 9, temperature=0, use_cache=False)
        ids = torch.tensor([IDS[:5]])
        with torch.no_grad():
            for _ in range(9):
                ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    assert cached.tolist() == whole.tolist() == ids.tolist()


def test_generation_changes_where_the_intervention_acts():
    model = tiny(init_std=0.6)
    ids = torch.tensor([IDS[:5]])
    bare = model.generate(ids, 9, temperature=0)[0].tolist()
    steer = 60 * model.W_U[:, (bare[9] + 1) % 23].detach()
    with apply(model, Steer(steer, position=8)):
        late = model.generate(ids, 9, temperature=0)[0].tolist()
    assert late != bare
    assert late[:9] == bare[:9]  # position 8 is read when token 9 is chosen


@pytest.mark.parametrize("window", [None, 3])
def test_a_padded_row_is_changed_as_it_is_alone(window):
    model = tiny(attention_window=window)
    rows = [IDS[:6], IDS[3:6]]
    padded = torch.zeros(2, 6, dtype=torch.long)
    mask = torch.zeros(2, 6, dtype=torch.long)
    for row, ids in enumerate(rows):
        padded[row, 6 - len(ids) :] = torch.tensor(ids)
        mask[row, 6 - len(ids) :] = 1
    effects = [
        Scale("head", 0, head=1, factor=5, position=1),
        KnockOut(key=0, query=2),
        Patch("mlp_out", 1, source=[8, 9]),
    ]
    with torch.no_grad(), apply(model, effects):
        together = model(padded, attention_mask=mask)
        alone = [model(torch.tensor([ids]))[0] for ids in rows]
    for row, ids in enumerate(rows):
        assert torch.allclose(together[row, 6 - len(ids) :], alone[row], atol=1e-5)


def test_everything_is_as_before_after_the_block_and_after_an_exception():
    model = tiny()
    before = plain(model)
    with pytest.raises(KeyboardInterrupt), apply(model, [Ablate("head"), KnockOut(key=0)]):
        raise KeyboardInterrupt
    assert torch.equal(plain(model), before)
    assert not model.refresh_watch()
    assert not any(block._forward_pre_hooks for block in model.blocks)


def test_grouped_keys_have_fewer_heads():
    model = tiny(n_key_value_heads=2)
    point = "blocks.0.attn.hook_v"
    assert (run(model, Ablate("v", 0, head=1), [point])[1][point][0, :, 1] == 0).all()
    with pytest.raises(ValueError, match="Head 2 does not exist at 'v': give 0 to 1"):
        run(model, Ablate("v", 0, head=2))


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (Ablate("resid_pst", 0), "site is 'resid_pst'; did you mean 'resid_post'?"),
        (Ablate("head", 2), "Layer 2 does not exist: the model has 2 layers"),
        (Ablate("head", 0, head=4), "Head 4 does not exist at 'head': give 0 to 3"),
        (Ablate("resid_pre", 0, head=1), "names a head at site 'resid_pre', but it is a whole stream"),
        (Ablate("head", 0, neuron=1), "names a neuron at site 'head', but it has heads"),
        (Ablate("head", 0, method="average"), "method is 'average'"),
        (Ablate("head", 0, method="mean"), "needs reference="),
        (Ablate("head", 0, reference=[1]), "zero reads none"),
        (Patch("head", 0), "needs source="),
        (Steer(torch.zeros(3)), r"shape \[3\]; the stream has width 16"),
        (Steer(torch.zeros(16), site="head"), "not on 'head'"),
        (KnockOut(key=0, head=9), "Head 9 does not exist"),
        (Scale("head", 0, factor=2, position=-9), "Position -9 is outside the prompt of 8 tokens"),
    ],
)
def test_what_cannot_be_done_is_said(effect, message):
    model = tiny()
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        run(model, effect)
    assert not model.refresh_watch()


def test_an_effect_is_before_and_after():
    model = tiny().double()
    steer = Steer(torch.full((16,), 0.5, dtype=torch.float64), 0)
    effect = intervention_effect(model, IDS, steer)
    after, _ = run(model, steer)
    assert np.allclose(effect.logits_before, plain(model).numpy(), atol=1e-12)
    assert np.allclose(effect.logits_after, after.numpy(), atol=1e-12)
    p, q = plain(model).softmax(-1), after.softmax(-1)
    assert np.allclose(effect.kl, (p * (p / q).log()).sum(-1).numpy(), atol=1e-12)
    assert np.allclose(effect.loss_after[:-1], -q.log()[range(7), IDS[1:]].numpy(), atol=1e-12)
    assert np.isnan(effect.loss_after[-1])
    assert np.allclose(effect.logit_difference, (after - plain(model)).numpy(), atol=1e-12)
    assert effect.probability(model, 3) == pytest.approx((p[-1, 3].item(), q[-1, 3].item()))
    data = json.loads(effect.to_json())
    assert data["interventions"] == ["steer +1 resid_post layer 0"]
    assert "logits_before" not in data
    assert len(effect.to_frame()) == 8


def test_nothing_done_has_no_effect():
    effect = intervention_effect(tiny(), IDS, [])
    assert np.array_equal(effect.logits_before, effect.logits_after)
    assert (effect.kl == 0).all()
