"""Parts add up to the whole: decompositions and contributions, in every variant of the model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lab.analysis import logit_contributions, logit_lens, residual_decomposition
from model import GPT, GPTConfig

PLACEMENTS = ("pre", "post", "sandwich")
POSITIONS = ("standard", "sinusoidal", "rotary", "alibi", "none")


def random_model(**changes) -> GPT:
    """A tiny model whose every parameter, biases and norm scales too, is well away from its initial value."""
    settings = dict(d_vocab=23, n_ctx=12, d_model=16, n_layers=2, n_heads=4, d_mlp=24)
    model = GPT(GPTConfig(**{**settings, **changes})).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


IDS = torch.tensor([3, 7, 7, 1, 22, 0, 7])


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", ["LN", "RMS"])
def test_contributions_sum_to_the_logit_in_every_variant(norm, placement):
    for positions, gated, tied in itertools.product(POSITIONS, (False, True), (False, True)):
        model = random_model(
            normalization_type=norm,
            norm_placement=placement,
            positional_embedding_type=positions,
            gated_mlp=gated,
            tie_word_embeddings=tied,
        )
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-10)):
            model.to(dtype)
            with torch.no_grad():
                logits = model(IDS)[0, -1].double()
            case = f"{positions} gated={gated} tied={tied} {dtype}"
            for by in ("layer", "component", "head", "neuron"):
                result = logit_contributions(model, IDS, token=5, versus=3, by=by)
                assert result.values.sum() == pytest.approx(float(logits[5] - logits[3]), abs=tolerance), (case, by)
                assert result.error <= tolerance


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", ["LN", "RMS"])
def test_components_sum_to_every_point_of_the_stream(norm, placement):
    """fp64: 1e-12 relative, whatever the norms do in between."""
    model = random_model(normalization_type=norm, norm_placement=placement).double()
    _, cache = model.run_with_cache(IDS)
    points = {
        "blocks.0.hook_resid_pre": dict(layer=0),
        "blocks.1.hook_resid_pre": dict(layer=1),
        "blocks.0.hook_resid_post": dict(layer=0, site="resid_post"),
        "blocks.1.hook_resid_mid": dict(layer=1, site="resid_mid"),
        "blocks.1.hook_resid_post": dict(),
    }
    for (point, where), by in itertools.product(points.items(), ("component", "head", "neuron")):
        result = residual_decomposition(model, IDS, by=by, **where)
        stream = cache[point][0].numpy()
        assert np.abs(result.components.sum(0) - stream).max() <= 1e-12 * np.abs(stream).max(), (point, by)
        assert result.error.max() <= 1e-12
        assert result.shares.sum(0) == pytest.approx(1)


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_without_norms_on_the_way_the_stream_is_the_plain_sum(n_layers):
    """Pre-Norm: embeddings and what each layer adds, nothing else; a layer's attention is its heads and a bias."""
    for changes in (dict(act_fn="gelu"), dict(act_fn="silu", gated_mlp=True)):
        for norm, tied in itertools.product(("LN", "RMS"), (False, True)):
            model = random_model(n_layers=n_layers, normalization_type=norm, tie_word_embeddings=tied, **changes)
            _, cache = model.double().run_with_cache(IDS, names_filter=lambda name: True)
            stream = cache["hook_embed"] + cache["hook_pos_embed"]
            for layer in range(n_layers):
                heads = cache["result", layer].sum(2) + model.blocks[layer].attn.b_O
                torch.testing.assert_close(heads, cache["attn_out", layer], atol=1e-12, rtol=0)
                stream = stream + cache["attn_out", layer] + cache["mlp_out", layer]
            torch.testing.assert_close(stream, cache["resid_post", -1], atol=1e-12, rtol=0)


def test_contributions_take_the_models_own_scale_and_the_lens_a_new_one():
    """What layer 0 adds to a logit is seen through the final norm as it was; the lens asks what a model that ended
    there would say."""
    model = random_model(normalization_type="RMS", use_bias=False).double()
    _, cache = model.run_with_cache(IDS)
    written = (cache["attn_out", 0] + cache["mlp_out", 0])[0, -1]
    read = model.W_U[:, 5].detach() * model.ln_final.w.detach()
    scale = cache["ln_final.hook_scale"][0, -1]
    by_layer = logit_contributions(model, IDS, token=5, by="layer")
    assert by_layer.values[by_layer.labels.index("L0")] == pytest.approx(float(written @ read / scale), abs=1e-12)

    lens = logit_lens(model, IDS, top_k=23)
    stream = cache["resid_post", 0][0, -1]
    afresh = (stream / (stream.square().mean() + model.config.eps).sqrt() * model.ln_final.w) @ model.W_U
    borrowed = (stream / scale * model.ln_final.w) @ model.W_U
    order = torch.as_tensor(lens.top_tokens[lens.rows.index("L0"), -1])
    shown = lens.top_probabilities[lens.rows.index("L0"), -1]
    assert shown == pytest.approx(afresh.softmax(-1)[order].detach().numpy(), abs=1e-10)
    assert abs(shown - borrowed.softmax(-1)[order].detach().numpy()).max() > 1e-3


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_final_norms_output_is_what_the_unembedding_reads(placement):
    model = random_model(norm_placement=placement).double()
    result = residual_decomposition(model, IDS, site="ln_final", by="head")
    with torch.no_grad():
        logits = model(IDS)[0]
        rebuilt = torch.as_tensor(result.components.sum(0)) @ model.W_U
    assert torch.allclose(rebuilt, logits, atol=1e-10, rtol=0)


def test_post_norm_is_not_the_plain_sum():
    """The test above could pass trivially if norms did little; here the naive sum is plainly wrong."""
    model = random_model(norm_placement="post").double()
    _, cache = model.run_with_cache(IDS)
    naive = cache["hook_embed"] + cache["hook_pos_embed"]
    for layer in range(2):
        naive = naive + cache["attn_out", layer] + cache["mlp_out", layer]
    assert (naive - cache["resid_post", -1]).abs().max() > 1


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_rarer_variants_too(placement):
    """Grouped queries, QK norm, a window, no biases, a squared ReLU, one head of width one."""
    for changes in (
        dict(n_key_value_heads=2, qk_norm=True, attention_window=3),
        dict(use_bias=False, act_fn="relu2", n_heads=1),
        dict(d_model=3, n_heads=3, n_layers=1),
        dict(d_model=6, n_heads=2, d_head=5, n_key_value_heads=1),
    ):
        model = random_model(norm_placement=placement, **changes).double()
        with torch.no_grad():
            logit = float(model(IDS)[0, 2, 4])
        for by in ("component", "head", "neuron"):
            result = logit_contributions(model, IDS, position=2, token=4, by=by)
            assert result.values.sum() == pytest.approx(logit, abs=1e-10), (changes, by)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_soft_cap_is_explained_before_it_and_both_numbers_are_given(placement):
    cap = 2.0
    model = random_model(norm_placement=placement, logit_soft_cap=cap).double()
    with torch.no_grad():
        capped = float(model(IDS)[0, -1, 4])
    result = logit_contributions(model, IDS, token=4)
    assert result.values.sum() == pytest.approx(result.logit, abs=1e-10)
    assert result.model_logit == pytest.approx(capped, abs=1e-12)
    assert cap * np.tanh(result.logit / cap) == pytest.approx(capped, abs=1e-12)
    assert logit_lens(model, IDS).final_error < 1e-12


def test_drill_down_keeps_the_sums():
    """Layer -> its parts -> heads and neurons: each level splits one number of the level above."""
    model = random_model(norm_placement="sandwich").double()
    whole = logit_contributions(model, IDS, by="layer")
    parts = logit_contributions(model, IDS, by="component")
    heads = logit_contributions(model, IDS, by="head", layer=1)
    neurons = logit_contributions(model, IDS, by="neuron", layer=-1)
    layer_1 = whole.values[whole.labels.index("L1")]
    assert parts.values[parts.layer == 1].sum() == pytest.approx(layer_1, abs=1e-12)
    assert heads.values[heads.layer == 1].sum() == pytest.approx(layer_1, abs=1e-12)
    of_attention = (heads.layer == 1) & ((heads.kind == "head") | (np.array(heads.labels) == "L1 attn bias"))
    assert heads.values[of_attention].sum() == pytest.approx(parts.values[parts.labels.index("L1 attn")], abs=1e-12)
    assert (heads.kind == "head").sum() == 4 and set(heads.layer[heads.kind == "head"]) == {1}
    assert (neurons.kind == "neuron").sum() == 24
    of_mlp = (neurons.kind == "neuron") | (np.array(neurons.labels) == "L1 mlp bias")
    assert neurons.values[of_mlp].sum() == pytest.approx(parts.values[parts.labels.index("L1 mlp")], abs=1e-12)


def test_each_value_is_that_component_alone():
    """Not only the sum: pulling a direction back and pushing vectors forward give the same number for each part."""
    for placement in PLACEMENTS:
        model = random_model(norm_placement=placement).double()
        for by in ("component", "head", "neuron"):
            values = logit_contributions(model, IDS, position=4, token=9, by=by)
            vectors = residual_decomposition(model, IDS, site="ln_final", by=by, position=4)
            assert values.labels == vectors.labels
            pushed = vectors.components[:, 0] @ model.W_U[:, 9].detach().numpy()
            assert values.values == pytest.approx(pushed, abs=1e-10)


def test_norm_biases_are_named_components():
    post = logit_contributions(random_model(norm_placement="post"), IDS)
    assert {"L0 ln1 bias", "L0 ln2 bias", "L1 ln1 bias", "L1 ln2 bias"} <= set(post.labels)
    sandwich = logit_contributions(random_model(norm_placement="sandwich"), IDS)
    assert {"L0 ln1_post bias", "L1 ln2_post bias", "ln_final bias"} <= set(sandwich.labels)
    plain = logit_contributions(random_model(normalization_type="RMS", use_bias=False), IDS, by="head")
    assert "bias" not in set(plain.kind)


def test_sums_hold_under_the_users_own_hooks():
    """What was cut or edited is what is decomposed."""
    model = random_model(norm_placement="post").double()

    def silence(activation, hook):
        activation = activation.clone()
        activation[:, :, 1] = 0
        return activation

    for point in ("blocks.0.attn.hook_z", "blocks.1.attn.hook_result"):
        with model.hooks(fwd_hooks=[(point, silence)]):
            result = logit_contributions(model, IDS, token=4, by="head")
        label = f"L{point[7]}H1"
        assert result.values[result.labels.index(label)] == 0
        assert result.error < 1e-10
    assert logit_contributions(model, IDS, token=4, by="head").values.all()


@pytest.fixture(scope="module")
def pre_norm():
    return random_model(n_layers=3).double()


def test_decompositions_agree_with_transformer_lens(pre_norm):
    _, cache = pre_norm.run_with_cache(IDS)
    ours = residual_decomposition(pre_norm, IDS)
    theirs, labels = cache.decompose_resid(return_labels=True)
    assert len(labels) == len(ours.labels)
    assert np.allclose(ours.components, theirs[:, 0].detach().numpy(), atol=1e-12)

    heads = residual_decomposition(pre_norm, IDS, by="head")
    theirs, labels = cache.stack_head_results(return_labels=True)
    rows = [heads.labels.index(label) for label in labels]
    assert np.allclose(heads.components[rows], theirs[:, 0].detach().numpy(), atol=1e-12)

    neurons = residual_decomposition(pre_norm, IDS, by="neuron", position=-1)
    theirs, labels = cache.stack_neuron_results(layer=-1, pos_slice=-1, return_labels=True)
    rows = [neurons.labels.index(label) for label in labels]
    assert np.allclose(neurons.components[rows, 0], theirs[:, 0].detach().numpy(), atol=1e-12)


def test_contributions_agree_with_transformer_lens(pre_norm):
    """logit_attrs leaves the final norm's bias out; ours carries it as a row of its own."""
    _, cache = pre_norm.run_with_cache(IDS)
    folded = pre_norm.W_U * pre_norm.ln_final.w[:, None]
    direction = (folded[:, 5] - folded[:, 3]).detach()
    stack = cache.apply_ln_to_stack(cache.decompose_resid(), layer=-1, pos_slice=-1)[:, 0, -1]
    ours = logit_contributions(pre_norm, IDS, token=5, versus=3)
    assert ours.labels[-1] == "ln_final bias"
    assert ours.values[:-1] == pytest.approx((stack @ direction).detach().numpy(), abs=1e-12)

    plain = GPT(GPTConfig(d_vocab=23, n_ctx=12, d_model=16, n_layers=3, n_heads=4)).double()  # norm weights of 1
    _, cache = plain.run_with_cache(IDS)
    attrs = cache.logit_attrs(cache.decompose_resid(), tokens=5, incorrect_tokens=3)[:, 0, -1]
    ours = logit_contributions(plain, IDS, token=5, versus=3)
    assert ours.values[:-1] == pytest.approx(attrs.detach().numpy(), abs=1e-12)


def test_a_decomposition_that_would_not_fit_is_refused_with_the_fix(monkeypatch):
    import lab.analysis.decomposition as module

    monkeypatch.setattr(module, "MEMORY_LIMIT", 20_000)
    model = random_model()
    with pytest.raises(ValueError, match=r"7 positions of width 16.*position="):
        residual_decomposition(model, IDS, by="neuron")
    assert residual_decomposition(model, IDS, by="component").components.shape == (6, 7, 16)


def test_where_to_look_is_checked():
    model = random_model()
    with pytest.raises(ValueError, match="Layer 3 does not exist: the model has 2 layers"):
        residual_decomposition(model, IDS, layer=3)
    with pytest.raises(ValueError, match="did you mean 'resid_mid'"):
        residual_decomposition(model, IDS, layer=0, site="resid_middle")
    with pytest.raises(ValueError, match="needs a layer"):
        residual_decomposition(model, IDS, site="resid_mid")
    with pytest.raises(ValueError, match="leave layer out"):
        residual_decomposition(model, IDS, site="ln_final", layer=1)
    with pytest.raises(ValueError, match="did you mean 'neuron'"):
        logit_contributions(model, IDS, by="neurons")
    with pytest.raises(ValueError, match="Position 7 is outside the prompt of 7 tokens"):
        logit_contributions(model, IDS, position=7)
    with pytest.raises(ValueError, match="token 23 is outside the vocabulary"):
        logit_contributions(model, IDS, token=23)
    with pytest.raises(ValueError, match="versus 'a' is text and the model has no tokenizer"):
        logit_contributions(model, IDS, versus="a")
