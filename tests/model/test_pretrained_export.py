"""save_pretrained: transformers loads what it wrote and computes the same; what it has no class for is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from model import GPT, GPTConfig, RotaryScaling
from model.pretrained import PretrainedError
from tests.model.references import MODELS, keep_fp64, reference
from tests.model.variants import tiny, tokens

LLAMA = dict(positional_embedding_type="rotary", normalization_type="RMS", gated_mlp=True, act_fn="silu")
ROTARY_LN = dict(positional_embedding_type="rotary")

# name -> (the class expected, config)
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {}),
    "untied": ("gpt2", dict(tie_word_embeddings=False)),
    "without biases": ("gpt2", dict(use_bias=False)),
    "some biases": ("gpt2", dict(attention_bias="qkv", mlp_bias=False)),
    "relu2": ("gpt2", dict(act_fn="relu2", d_mlp=24)),
    "identity": ("gpt2", dict(act_fn="identity")),
    "bilinear": ("llama", dict(LLAMA, gated_mlp=True, act_fn="identity")),
    "llama": ("llama", dict(LLAMA, use_bias=False)),
    "llama with biases": ("llama", dict(LLAMA, use_bias=True, n_key_value_heads=2, d_head=6)),
    "llama, mlp bias alone": ("llama", dict(LLAMA, use_bias=False, mlp_bias=True, tie_word_embeddings=False)),
    "gelu gate": ("llama", dict(LLAMA, use_bias=False, act_fn="gelu_new", n_key_value_heads=1)),
    "linear": ("llama", dict(LLAMA, use_bias=False, rotary_scaling=RotaryScaling("linear", 2.0))),
    "ntk": ("llama", dict(LLAMA, use_bias=False, d_head=8, rotary_scaling=RotaryScaling("ntk", 2.0))),
    "yarn": ("llama", dict(LLAMA, use_bias=False, rotary_scaling=RotaryScaling("yarn", 2.0, 8))),
    "llama3": ("llama", dict(LLAMA, use_bias=False, rotary_scaling=RotaryScaling("llama3", 4.0, 8))),
    "qwen2": ("qwen2", dict(LLAMA, use_bias=False, attention_bias="qkv")),
    "qwen2, window": ("qwen2", dict(LLAMA, use_bias=False, attention_bias="qkv", attention_window=4)),
    "qwen3": ("qwen3", dict(LLAMA, use_bias=False, qk_norm=True, n_key_value_heads=2)),
    "qwen3, window": ("qwen3", dict(LLAMA, use_bias=False, qk_norm=True, attention_window=4, attention_bias=True)),
    "mistral": ("mistral", dict(LLAMA, use_bias=False, attention_window=4)),
    "arcee": ("arcee", dict(LLAMA, gated_mlp=False, act_fn="relu2", use_bias=False)),
    "arcee with biases": ("arcee", dict(LLAMA, gated_mlp=False, act_fn="gelu", n_key_value_heads=2)),
    "starcoder2": ("starcoder2", dict(ROTARY_LN, n_key_value_heads=2, d_head=6)),
    "starcoder2 without biases": ("starcoder2", dict(ROTARY_LN, use_bias=False, attention_window=4)),
    "stablelm": ("stablelm", dict(ROTARY_LN, gated_mlp=True, act_fn="silu", attention_bias="qkv", mlp_bias=False)),
    "stablelm without biases": ("stablelm", dict(ROTARY_LN, gated_mlp=True, act_fn="silu", use_bias=False)),
}


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import AutoModelForCausalLM

    model, seen = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=dtype, output_loading_info=True, local_files_only=True
    )
    assert not seen["missing_keys"] and not seen["unexpected_keys"] and not seen["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize("name", VARIANTS)
def test_transformers_computes_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = VARIANTS[name]
    keep_fp64(monkeypatch)
    model = tiny(**values).double()
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == kind
    theirs = load(tmp_path, torch.float64)
    x = tokens(2, 16)
    with torch.no_grad():
        torch.testing.assert_close(theirs(x).logits, model(x), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_read_back_it_is_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    model = tiny(**VARIANTS[name][1])
    model.save_pretrained(tmp_path)
    again = GPT.from_pretrained(tmp_path)
    assert again.config == model.config
    ours, theirs = model.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


@pytest.mark.parametrize("name", MODELS)
def test_what_was_read_is_written_as_it_was(name: str, tmp_path: Path) -> None:
    """transformers -> here -> transformers: the same class, the same tensors."""
    from safetensors.torch import load_file

    reference(name).save_pretrained(tmp_path / "theirs")
    GPT.from_pretrained(tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    theirs, ours = (load_file(tmp_path / who / "model.safetensors") for who in ("theirs", "ours"))
    assert theirs.keys() == ours.keys() and all(torch.equal(theirs[k], ours[k]) for k in ours)
    configs = [json.loads((tmp_path / who / "config.json").read_text()) for who in ("theirs", "ours")]
    assert configs[0]["model_type"] == configs[1]["model_type"]


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (dict(norm_placement="post"), ["norm_placement"]),
        (dict(norm_placement="sandwich", logit_soft_cap=5.0), ["norm_placement", "logit_soft_cap"]),
        (dict(positional_embedding_type="alibi"), ["positional_embedding_type"]),
        (dict(positional_embedding_type="none"), ["positional_embedding_type"]),
        (dict(positional_embedding_type="sinusoidal"), ["positional_embedding_type"]),
        (dict(normalization_type="RMS"), ["normalization_type"]),
        (dict(gated_mlp=True, qk_norm=True), ["gated_mlp", "qk_norm"]),
        (dict(n_key_value_heads=2), ["n_key_value_heads"]),
        (dict(d_head=8), ["d_head"]),
        (dict(attention_window=4), ["attention_window"]),
        (dict(LLAMA, gated_mlp=False, qk_norm=True, use_bias=False), ["gated_mlp"]),
        (dict(LLAMA, attention_window=4, use_bias=True), ["attention_window"]),
        (dict(LLAMA, qk_norm=True, use_bias=True), ["use_bias"]),
        (dict(ROTARY_LN, qk_norm=True), ["qk_norm"]),
        (dict(ROTARY_LN, gated_mlp=True), ["use_bias"]),
    ],
)
def test_fields_without_a_counterpart_are_named(values: dict[str, Any], fields: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with pytest.raises(PretrainedError, match="has no counterpart of " + "; ".join(f"{f} .*" for f in fields)):
        tiny(**values).save_pretrained(folder)
    assert not folder.exists()


def test_an_edited_config_is_not_taken_for_the_saved_one(tmp_path: Path) -> None:
    tiny().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "activation_function": "relu"}))
    with pytest.raises(PretrainedError, match="was edited: its fields say act_fn 'relu'"):
        GPT.from_pretrained(tmp_path)
    config.pop("residlab")
    path.write_text(json.dumps({**config, "activation_function": "relu"}))
    assert GPT.from_pretrained(tmp_path).config.act_fn == "relu"


def test_weights_of_another_model_are_not_mixed_with(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(PretrainedError, match="holds weights of another model"):
        tiny().save_pretrained(tmp_path)
    with pytest.raises(PretrainedError, match="is a file"):
        tiny().save_pretrained(tmp_path / "pytorch_model.bin")


def test_half_precision_stays_half(tmp_path: Path) -> None:
    model = tiny(**LLAMA, use_bias=False).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    assert load(tmp_path, "auto").dtype == torch.bfloat16  # type: ignore[arg-type]
    again = GPT.from_pretrained(tmp_path, dtype="bf16")
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))


# --- folding ---------------------------------------------------------------------------------------------------

FOLDABLE = {
    **{name: values for name, (_, values) in VARIANTS.items() if "window" not in name},
    "sandwich": dict(norm_placement="sandwich"),
    "qk_norm": dict(qk_norm=True, positional_embedding_type="alibi"),
    "no biases to fold into": dict(attention_bias=False, mlp_bias=False),
}


@pytest.mark.parametrize("name", FOLDABLE)
def test_folded_norms_give_the_same_logits(name: str, tmp_path: Path) -> None:
    model = tiny(**FOLDABLE[name]).double()
    with torch.no_grad():
        model.ln_final.w[3] = 0  # a dimension nothing reads
    from model.folding import fold_norms

    before = {k: v.clone() for k, v in model.state_dict().items()}
    folded = fold_norms(model)
    x = tokens(2, 16)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), model(x), atol=1e-10, rtol=0)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())  # the model itself stays
    gains = torch.cat([n.w for b in folded.blocks for n in (b.ln1, b.ln2)])
    assert torch.equal(gains, torch.ones_like(gains))
    assert torch.equal(folded.ln_final.w[4:], torch.ones_like(folded.ln_final.w[4:]))
    assert folded.config.norms_folded and not model.config.norms_folded
    again = fold_norms(folded)
    assert all(torch.equal(p, q) for p, q in zip(folded.parameters(), again.parameters(), strict=True))
    if name in VARIANTS:
        folded.save_pretrained(tmp_path)
        assert GPT.from_pretrained(tmp_path).config.norms_folded
        twice = GPT.from_pretrained(tmp_path, fold_norms=True)
        assert all(torch.equal(p, q) for p, q in zip(folded.parameters(), twice.parameters(), strict=True))


@pytest.mark.parametrize("values", [{}, dict(use_bias=False), dict(tie_word_embeddings=False, norms_folded=False)])
@pytest.mark.parametrize("also_fold", [False, True])
def test_centred_weights_give_the_same_probabilities(values: dict[str, Any], also_fold: bool) -> None:
    from model.folding import center, fold_norms

    model = tiny(**values).double()
    centred = center(fold_norms(model) if also_fold else model)
    x = tokens(2, 16)
    with torch.no_grad():
        logits, expected = centred(x), model(x)
        torch.testing.assert_close(logits.log_softmax(-1), expected.log_softmax(-1), atol=1e-10, rtol=0)
        if also_fold:  # nothing of the final norm's bias may be left out of the mean either
            shift = expected.mean(-1, keepdim=True)
            torch.testing.assert_close(logits, expected - shift, atol=1e-10, rtol=0)
        stream = centred.run_with_cache(x)[1]["blocks.1.hook_resid_post"]
    assert stream.mean(-1).abs().max() < 1e-12
    assert centred.W_U.mean(-1).abs().max() < 1e-12
    assert centred.config.weights_centered and center(centred) is centred


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (dict(normalization_type="RMS"), "RMSNorm reads the mean"),
        (dict(norm_placement="sandwich"), "norm_placement 'sandwich'"),
        (dict(positional_embedding_type="sinusoidal"), "'sinusoidal'"),
    ],
)
def test_what_cannot_be_centred_is_said(values: dict[str, Any], words: str) -> None:
    from model.folding import center, fold_norms

    with pytest.raises(ValueError, match=words):
        center(tiny(**values))
    with pytest.raises(ValueError, match="norm_placement 'post'"):
        fold_norms(tiny(norm_placement="post"))


def test_a_soft_capped_model_keeps_its_unembedding() -> None:
    from model.folding import center

    model = tiny(logit_soft_cap=3.0).double()
    with torch.no_grad():
        torch.testing.assert_close(center(model)(tokens()), model(tokens()), atol=1e-10, rtol=0)


def test_a_config_of_the_defaults_is_gpt2s() -> None:
    from model.accounting import count_parameters

    assert count_parameters(GPTConfig()).total == 124_439_808
    assert count_parameters(GPTConfig(attention_bias="qkv", mlp_bias=False)).total == 124_439_808 - 12 * (768 * 6)
