"""Prompts in every form, the logit lens, predictions, norms and the whole inspection of a prompt."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import lab.analysis as analysis
from lab.analysis import (
    attention_patterns,
    head_scores,
    inspect_prompt,
    logit_contributions,
    logit_lens,
    residual_decomposition,
    residual_norms,
    token_predictions,
)
from lab.tokenizers import UnknownCharacters, train_tokenizer
from model import GPT, GPTConfig

TEXT = "the cat the cat the"


def tiny(**changes) -> GPT:
    settings = dict(d_vocab=11, n_ctx=24, d_model=16, n_layers=2, n_heads=2, init_std=0.3)
    return GPT(GPTConfig(**{**settings, **changes})).eval()


@pytest.fixture(scope="module")
def reader() -> GPT:
    """A model that reads characters."""
    tokenizer = train_tokenizer("char", TEXT + " <b>$x&\n")
    model = tiny(d_vocab=tokenizer.vocab_size)
    model.tokenizer = tokenizer
    return model


EVERY = {
    "residual_decomposition": residual_decomposition,
    "logit_contributions": logit_contributions,
    "residual_norms": residual_norms,
    "logit_lens": logit_lens,
    "attention_patterns": attention_patterns,
    "head_scores": head_scores,
    "token_predictions": token_predictions,
}


def as_json(result) -> str:
    return json.dumps(result) if isinstance(result, dict) else result.to_json()


@pytest.mark.parametrize("name", EVERY)
def test_text_list_array_and_tensor_are_the_same_prompt(reader, name):
    ids = reader.tokenizer.encode(TEXT)
    forms = [TEXT, [TEXT], list(ids), tuple(ids), np.array(ids), torch.tensor(ids), torch.tensor([ids])]
    assert len({as_json(EVERY[name](reader, form)) for form in forms}) == 1


@pytest.mark.parametrize("name", EVERY)
def test_looking_changes_nothing(name):
    """Mode, gradients, hooks, weights and the global random state are as before, dropout or not."""
    model = tiny(attn_dropout=0.5, resid_dropout=0.5, embed_dropout=0.5)
    model.train()
    model.blocks[1].eval()
    model(torch.arange(5), return_type="loss").backward()
    calls = []
    model.add_hook("blocks.0.hook_resid_pre", lambda activation, hook: calls.append(hook.name))
    before = {
        "modes": [module.training for module in model.modules()],
        "gradients": {n: p.grad.clone() for n, p in model.named_parameters()},
        "weights": {n: p.detach().clone() for n, p in model.named_parameters()},
        "random": torch.get_rng_state(),
        "grad": torch.is_grad_enabled(),
    }
    first = as_json(EVERY[name](model, [1, 2, 3, 1]))
    assert first == as_json(EVERY[name](model, [1, 2, 3, 1])), "dropout was active"
    assert calls, "the user's hook did not act"
    assert [module.training for module in model.modules()] == before["modes"]
    assert all(torch.equal(p.grad, before["gradients"][n]) for n, p in model.named_parameters())
    assert all(torch.equal(p, before["weights"][n]) and p.requires_grad for n, p in model.named_parameters())
    assert torch.equal(torch.get_rng_state(), before["random"])
    assert torch.is_grad_enabled() == before["grad"]
    assert len(model.hook_dict["blocks.0.hook_resid_pre"].fwd_hooks) == 1
    assert sum(len(point.fwd_hooks) for point in model.hook_dict.values()) == 1


def test_the_mode_comes_back_when_a_hook_raises():
    model = tiny(resid_dropout=0.5).train()

    def broken(activation, hook):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), model.hooks(fwd_hooks=[("hook_embed", broken)]):
        logit_lens(model, [1, 2])
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("name", EVERY)
def test_one_token_is_enough(reader, name):
    result = EVERY[name](reader, "t")
    json.loads(as_json(result), parse_constant=pytest.fail)
    result.to_frame()


def test_one_token_has_a_pattern_but_no_loss(reader):
    attention = attention_patterns(reader, "t")
    assert attention.pattern.shape == (2, 2, 1, 1) and (attention.pattern == 1).all()
    predictions = token_predictions(reader, "t")
    assert np.isnan(predictions.surprisal).all() and predictions.top_tokens.shape == (1, 5)
    with pytest.raises(ValueError, match="needs 2 tokens: this prompt has 1"):
        _ = predictions.loss
    assert residual_norms(reader, "t").resid_post.shape == (2, 1)


@pytest.mark.parametrize(
    "size", [dict(n_ctx=1), dict(n_ctx=2), dict(d_vocab=1), dict(d_model=1, n_heads=1, n_layers=1)]
)
@pytest.mark.parametrize("name", EVERY)
def test_the_smallest_models_have_working_views(name, size):
    result = EVERY[name](tiny(**size), [0])
    json.loads(result.to_json(), parse_constant=pytest.fail)


def test_bad_prompts_are_refused_with_the_values(reader):
    model = tiny()
    for tokens, sentence in (
        ([], "prompt is empty"),
        (torch.empty(0, dtype=torch.long), "prompt is empty"),
        ([1, 11], "id 11 at position 1 is outside the vocabulary .0 to 10."),
        ([-1], "id -1 at position 0"),
        ([0] * 25, "has 25 tokens, the model's context is 24: shorten it by 1"),
        ([0.5], "must be whole numbers"),
        (["a", 1], "must be whole numbers"),
        ([True], "must be whole numbers"),
        (torch.zeros(2, 3, dtype=torch.long), r"shape \[2, 3\]"),
        ([[1, 2], [3]], "must be whole numbers"),
        (["a", "b"], "a list of 2 texts"),
        ("text", "needs a tokenizer"),
    ):
        with pytest.raises(ValueError, match=sentence):
            logit_lens(model, tokens)
    with pytest.raises(ValueError, match="prompt is empty and this tokenizer has no beginning-of-text"):
        logit_lens(reader, "")
    with pytest.raises(UnknownCharacters, match="Z"):
        logit_lens(reader, "Z")
    with pytest.raises(ValueError, match=r"token 'the' is 3 tokens .'t', 'h', 'e'.: give one token"):
        logit_contributions(reader, "t", token="the")
    for top_k in (0, -1, 2.5):
        with pytest.raises(ValueError, match="top_k"):
            logit_lens(reader, "t", top_k)
        with pytest.raises(ValueError, match="top_k"):
            token_predictions(reader, "t", top_k)


def test_an_empty_text_starts_from_the_beginning_of_text():
    from lab.tokenizers import SymbolTokenizer

    model = tiny()
    model.tokenizer = SymbolTokenizer(["<s>", *"abcdefghij"], bos="<s>")
    assert logit_lens(model, "").tokens.tolist() == [0]


def test_padding_rows_of_the_vocabulary_have_a_name():
    """A vocabulary padded beyond its tokenizer (a usual trick for speed) may still put such a row on top."""
    model = tiny(d_vocab=16)
    model.tokenizer = train_tokenizer("char", "abc")
    lens = logit_lens(model, "ab", top_k=16)
    assert "#15" in lens.top_texts[0, 0]


def test_tokens_are_shown_but_not_changed(reader):
    lens = logit_lens(reader, "t <b>\n")
    assert lens.tokens.tolist() == reader.tokenizer.encode("t <b>\n")
    assert lens.token_texts[2] == "<" and " " not in lens.token_texts and "\n" not in lens.token_texts


# --- lens ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("norm", ["LN", "RMS"])
@pytest.mark.parametrize("cap", [None, 3.0])
def test_the_last_row_is_the_models_own_output(norm, placement, cap):
    model = tiny(norm_placement=placement, normalization_type=norm, logit_soft_cap=cap)
    ids = torch.tensor([3, 1, 4, 1, 5])
    lens = logit_lens(model, ids, top_k=11)
    with torch.no_grad():
        own = model(ids)[0].softmax(-1)
    order = torch.as_tensor(lens.top_tokens[-1])
    assert lens.top_probabilities[-1] == pytest.approx(own.gather(-1, order).numpy(), abs=1e-5)
    assert lens.final_error < 1e-5
    assert lens.final_tokens.tolist() == own.argmax(-1).tolist() == lens.top_tokens[-1, :, 0].tolist()
    assert (lens.rank[-1] == 1).all()
    assert lens.kl[-1] == pytest.approx(0, abs=1e-5)


def test_each_row_takes_the_norm_afresh():
    """The row after layer 0 is what the model says with its other layers removed, not what a borrowed scale says."""
    model = tiny(n_layers=3, init_std=0.5)
    ids = torch.tensor([3, 1, 4, 1, 5])
    lens = logit_lens(model, ids, top_k=11, include_mid=True)
    shorter = tiny(n_layers=1, init_std=0.5)
    shorter.load_state_dict({k: v for k, v in model.state_dict().items() if k in shorter.state_dict()})
    with torch.no_grad():
        own = shorter(ids)[0].softmax(-1)
    row = lens.rows.index("L0")
    order = torch.as_tensor(lens.top_tokens[row])
    assert lens.top_probabilities[row] == pytest.approx(own.gather(-1, order).numpy(), abs=1e-6)
    assert lens.rows == ("embed", "L0 mid", "L0", "L1 mid", "L1", "L2 mid", "L2")
    assert lens.layer.tolist() == [-1, 0, 0, 1, 1, 2, 2]


def test_lens_statistics_against_their_definitions():
    model = tiny().double()
    ids = torch.tensor([3, 1, 4, 1, 5])
    lens = logit_lens(model, ids, top_k=11)
    p = np.zeros((3, 5, 11))
    np.put_along_axis(p, lens.top_tokens, lens.top_probabilities, axis=-1)
    assert p.sum(-1) == pytest.approx(1)
    final = lens.final_tokens
    for row in range(3):
        for pos in range(5):
            here = p[row, pos]
            assert lens.probability[row, pos] == pytest.approx(here[final[pos]])
            assert lens.rank[row, pos] == 1 + (here > here[final[pos]]).sum()
            assert lens.entropy[row, pos] == pytest.approx(-(here * np.log(here)).sum())
            assert lens.kl[row, pos] == pytest.approx((p[-1, pos] * np.log(p[-1, pos] / here)).sum(), abs=1e-12)


def test_half_precision_is_read_in_single():
    model = tiny().bfloat16()
    lens = logit_lens(model, [3, 1, 4])
    assert lens.probability.dtype == np.float32 and np.isfinite(lens.kl).all()
    assert logit_contributions(model, [3, 1, 4], by="neuron").error < 0.05
    assert attention_patterns(model, [3, 1, 4]).pattern.dtype == np.float32


def test_a_certain_model_has_no_nan():
    """Probabilities that underflow to zero are where 0 log 0 goes wrong."""
    model = tiny()
    with torch.no_grad():
        model.embed.weight.mul_(1e4)
    lens = logit_lens(model, [3, 1, 4])
    assert lens.top_probabilities[-1, 0, 0] == 1
    for values in (lens.entropy, lens.kl, lens.probability):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("name", EVERY)
def test_a_diverged_model_is_shown_as_such(name):
    """Weights that are no numbers: results say so with NaN, a rank of 0, and null in JSON; nothing looks fine."""
    model = tiny()
    with torch.no_grad():
        model.blocks[0].mlp.w_out.weight.fill_(torch.nan)
    result = EVERY[name](model, [3, 1, 4, 1])
    values = json.loads(result.to_json(), parse_constant=pytest.fail)
    broken = {
        "residual_decomposition": ["error"],
        "logit_contributions": ["total", "logit", "error"],
        "residual_norms": ["mlp_out"],
        "logit_lens": ["kl", "final_error"],
        "attention_patterns": ["pattern"],
        "head_scores": ["previous_token", "entropy"],
        "token_predictions": ["surprisal"],
    }[name]
    for field in broken:
        assert np.isnan(np.asarray(getattr(result, field))).any(), field
        assert "None" in str(values[field]), field
    if hasattr(result, "rank"):
        assert (result.rank[-1] == 0).all()


# --- predictions and norms -------------------------------------------------------------------------------------


def test_predictions_agree_with_the_loss():
    model = tiny()
    ids = torch.tensor([3, 1, 4, 1, 5, 9])
    predictions = token_predictions(model, ids)
    with torch.no_grad():
        per_token = model(ids, return_type="loss", loss_per_token=True)[0].numpy()
        probabilities = model(ids)[0].softmax(-1)
    assert predictions.surprisal[1:] == pytest.approx(per_token, abs=1e-6)
    assert predictions.loss == pytest.approx(per_token.mean(), abs=1e-6)
    assert np.isnan(predictions.probability[0]) and predictions.rank[0] == 0
    for pos in range(1, 6):
        before = probabilities[pos - 1]
        assert predictions.rank[pos] == 1 + int((before > before[ids[pos]]).sum())
        assert predictions.top_probabilities[pos - 1, 0] == pytest.approx(float(before.max()))


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
def test_norms_are_those_of_the_cache(placement):
    model = tiny(norm_placement=placement)
    ids = torch.tensor([3, 1, 4])
    norms = residual_norms(model, ids)
    with torch.no_grad():
        _, cache = model.run_with_cache(ids)
    for layer in range(2):
        for point in ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out"):
            length = cache[point, layer][0].norm(dim=-1).numpy()
            assert getattr(norms, point)[layer] * np.sqrt(16) == pytest.approx(length, rel=1e-5)
        cosine = torch.cosine_similarity(cache["mlp_out", layer], cache["resid_mid", layer], dim=-1)
        assert norms.mlp_cosine[layer] == pytest.approx(cosine[0].numpy(), abs=1e-5)
    if placement == "post":
        assert norms.resid_post == pytest.approx(1, abs=1e-3)


def test_a_sublayer_that_writes_nothing_has_no_direction():
    model = tiny(zero_projection_init=True)
    norms = residual_norms(model, [3, 1, 4])
    assert (norms.attn_out == 0).all() and np.isnan(norms.attn_cosine).all()
    assert json.loads(norms.to_json())["attn_cosine"][0] == [None, None, None]
    attention = attention_patterns(model, [3, 1, 4])
    assert (attention.value_weighted == 0).all()


# --- results ---------------------------------------------------------------------------------------------------


def test_inspection_is_strict_json_with_the_numbers_of_the_parts(reader):
    found = inspect_prompt(reader, TEXT, position=3, top_k=4)
    assert list(found) == ["tokens", "next_token", "logit_lens", "contributions", "attention"]
    json.dumps(found, allow_nan=False)
    assert "".join(reader.tokenizer.decode([token["id"]]) for token in found["tokens"]) == TEXT
    assert found["tokens"][0]["probability"] is None and found["tokens"][1]["probability"] > 0
    assert len(found["next_token"]) == 4
    with torch.no_grad():
        logits = reader(TEXT)[0, 3]
    assert found["next_token"][0]["id"] == found["contributions"]["token"] == int(logits.argmax())
    assert sum(found["contributions"]["values"]) == pytest.approx(float(logits.max()), abs=1e-4)
    assert np.array(found["attention"]["pattern"]).shape == (2, 2, len(TEXT), len(TEXT))
    assert found["logit_lens"]["rows"] == ["embed", "L0", "L1"]


def test_json_keeps_every_digit(reader):
    lens = logit_lens(reader, TEXT)
    read = json.loads(lens.to_json())
    assert np.array_equal(np.array(read["probability"], dtype=np.float32), lens.probability)
    contributions = logit_contributions(reader, TEXT)
    assert json.loads(contributions.to_json())["values"] == contributions.values.tolist()


def test_tables_hold_the_numbers(reader):
    contributions = logit_contributions(reader, TEXT, by="head")
    table = contributions.to_frame()
    assert table["value"].sum() == pytest.approx(contributions.logit, abs=1e-4)
    assert table.loc[table["component"] == "L1H0", ["layer", "head"]].values.tolist() == [[1, 0]]
    assert table.loc[table["component"] == "embed", "layer"].isna().all()
    lens = logit_lens(reader, TEXT).to_frame()
    assert len(lens) == 3 * len(TEXT) and lens["layer"].isna().sum() == len(TEXT)
    attention = attention_patterns(reader, TEXT)
    table = attention.to_frame()
    assert len(table) == 2 * 2 * len(TEXT) * (len(TEXT) + 1) // 2
    row = table[(table["layer"] == 1) & (table["head"] == 0) & (table["query"] == 4) & (table["key"] == 2)]
    assert row["pattern"].item() == attention.pattern[1, 0, 4, 2]


def test_results_cannot_be_reassigned(reader):
    with pytest.raises(AttributeError):
        logit_lens(reader, "t").rank = None


def test_order_is_by_magnitude(reader):
    contributions = logit_contributions(reader, TEXT)
    sizes = np.abs(contributions.values[contributions.order()])
    assert (np.diff(sizes) <= 0).all()


def test_importing_the_package_does_not_import_torch():
    code = "import sys, lab.analysis; assert 'torch' not in sys.modules and 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert all(hasattr(analysis, name) for name in analysis.__all__)
