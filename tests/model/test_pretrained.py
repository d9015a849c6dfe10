"""GPT.from_pretrained: the numbers of the source, from every form its files come in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model import GPT
from model.pretrained import describe_pretrained
from tests.model.references import MODELS, keep_fp64, reference
from tests.model.variants import tokens

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_logits_equal_transformers(name: str, dtype: torch.dtype, tmp_path: Path, monkeypatch) -> None:
    if dtype == torch.float64:
        keep_fp64(monkeypatch)
    theirs = reference(name).to(dtype)
    theirs.save_pretrained(tmp_path)
    ours = GPT.from_pretrained(tmp_path)
    assert ours.dtype == dtype and not ours.training
    x = tokens(3, 32)
    with torch.no_grad():
        expected = theirs(x).logits
        torch.testing.assert_close(ours(x), expected, atol=TOLERANCE[dtype], rtol=0)
        torch.testing.assert_close(ours.run_with_cache(x)[0], expected, atol=TOLERANCE[dtype], rtol=0)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    described = describe_pretrained(tmp_path)
    assert described.config == ours.config
    assert described.parameters == sum(p.numel() for p in ours.parameters())


@pytest.mark.parametrize("folder", ["gpt2-arch-mgm", "llama-arch-glassllm"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_trained_models_equal_transformers(shared: Path, folder: str, dtype: torch.dtype, monkeypatch) -> None:
    from transformers import AutoModelForCausalLM

    if dtype == torch.float64:
        keep_fp64(monkeypatch)
    path = shared / "models" / folder
    theirs = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=dtype).eval()
    ours = GPT.from_pretrained(path, dtype=dtype)
    x = tokens(2, 64, d_vocab=ours.config.d_vocab)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x).logits, atol=TOLERANCE[dtype], rtol=0)


def test_a_trained_model_continues_as_it_was_trained_to(shared: Path) -> None:
    model = GPT.from_pretrained(shared / "models/gpt2-arch-mgm")
    ids = model.to_tokens("<bos> g__Bacteroides")
    assert ids.tolist() == [[2, model.tokenizer.encode("g__Bacteroides")[0]]]  # nothing is put before the text
    with torch.no_grad():
        best, token = model(ids)[0, -1].softmax(-1).max(-1)
    assert model.to_string(token) == "g__Parabacteroides" and abs(float(best) - 0.193) < 0.005


@pytest.mark.slow
def test_full_size_gpt2_equals_transformers(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(GPT2Config(attn_implementation="eager", initializer_range=0.08)).eval()
    theirs.save_pretrained(tmp_path)
    x = tokens(1, 64, d_vocab=50257)
    with torch.no_grad():
        expected, exact = theirs(x).logits, theirs.double()(x).logits
    del theirs
    ours = GPT.from_pretrained(tmp_path)
    assert sum(p.numel() for p in ours.parameters()) == 124_439_808
    with torch.no_grad():
        torch.testing.assert_close(ours(x), expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(ours.double()(x), exact, atol=1e-10, rtol=0)


# --- the forms that files come in ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    reference("gpt2").save_pretrained(tmp_path)
    return tmp_path


def rewrite(folder: Path, change) -> None:
    path = folder / "model.safetensors"
    state = change(load_file(path))
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)


def same(a: GPT, b: GPT) -> bool:
    return a.config == b.config and all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_a_tied_head_is_one_parameter_under_two_names(folder: Path) -> None:
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    model = GPT.from_pretrained(folder)
    assert model.unembed.weight is model.embed.weight


@pytest.mark.parametrize("prefix", ["", "_orig_mod.transformer.", "module.transformer.", "module._orig_mod.", "model."])
def test_prefixes_of_wrappers_are_understood(folder: Path, prefix: str) -> None:
    expected = GPT.from_pretrained(folder)
    rewrite(folder, lambda state: {prefix + k.removeprefix("transformer."): v for k, v in state.items()})
    assert same(GPT.from_pretrained(folder), expected)


def test_a_tied_head_in_the_file_is_taken_when_it_agrees(folder: Path) -> None:
    expected = GPT.from_pretrained(folder)
    rewrite(folder, lambda s: {**s, "lm_head.weight": s["transformer.wte.weight"].clone()})
    assert same(GPT.from_pretrained(folder), expected)


def test_causal_masks_of_old_checkpoints_are_left_out_and_nothing_else(folder: Path) -> None:
    expected = GPT.from_pretrained(folder)
    mask = torch.ones(32, 32, dtype=torch.bool).tril()[None, None]

    def add(state):
        for layer in range(2):
            state[f"transformer.h.{layer}.attn.bias"] = mask.clone()
            state[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        return state

    rewrite(folder, add)
    loaded = GPT.from_pretrained(folder)
    assert same(loaded, expected)
    bias = load_file(folder / "model.safetensors")["transformer.h.0.attn.c_attn.bias"]
    assert bias.abs().max() > 0 and torch.equal(loaded.blocks[0].attn.w_qkv.bias, bias)


def test_square_matrices_are_turned_with_the_others_or_not_at_all(folder: Path) -> None:
    """attn.c_proj is d x d: its shape cannot say whether it stands as Conv1D's or as Linear's."""
    expected = GPT.from_pretrained(folder)
    assert torch.equal(
        expected.blocks[0].attn.w_o.weight,
        load_file(folder / "model.safetensors")["transformer.h.0.attn.c_proj.weight"].T,
    )
    conv1d = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    rewrite(folder, lambda s: {k: v.T if k.endswith(conv1d) else v for k, v in s.items()})
    assert same(GPT.from_pretrained(folder), expected)


def test_several_files_and_torch_files_hold_the_same_model(folder: Path, tmp_path: Path) -> None:
    expected = GPT.from_pretrained(folder)
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    assert same(GPT.from_pretrained(folder), expected)
    (folder / "pytorch_model.bin").unlink()
    names = sorted(state)
    parts = {f"model-0000{i}-of-00002.safetensors": names[i - 1 :: 2] for i in (1, 2)}
    for file, part in parts.items():
        save_file({name: state[name] for name in part}, folder / file)
    assert same(GPT.from_pretrained(folder), expected)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert same(GPT.from_pretrained(folder), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(tmp_path: Path, dtype: torch.dtype) -> None:
    from transformers import AutoModelForCausalLM

    reference("llama").to(dtype).save_pretrained(tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    wide, half = GPT.from_pretrained(tmp_path), GPT.from_pretrained(tmp_path, dtype=dtype)
    assert wide.dtype == torch.float32 and half.dtype == dtype
    assert all(torch.equal(p, q.float()) for p, q in zip(wide.parameters(), half.parameters(), strict=True))
    x = tokens(2, 16)
    with torch.no_grad():
        torch.testing.assert_close(wide(x), theirs(x).logits, atol=1e-4, rtol=0)
        cache = half.run_with_cache(x)[1]
        norm = half.blocks[0].ln1
        exact = norm.scale(cache["blocks.0.hook_resid_pre"].float())
    assert cache["blocks.0.ln1.hook_scale"].dtype == torch.float32
    torch.testing.assert_close(cache["blocks.0.ln1.hook_scale"], exact)
    assert str(half(x).dtype) == str(dtype)


def test_old_llamas_bring_their_frequencies(tmp_path: Path) -> None:
    reference("llama").save_pretrained(tmp_path)
    expected = GPT.from_pretrained(tmp_path)
    frequencies = 1.0 / 10000.0 ** (torch.arange(0, 4, 2).float() / 4)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    rewrite(tmp_path, lambda s: {**s, name: frequencies})
    assert same(GPT.from_pretrained(tmp_path), expected)
    rewrite(tmp_path, lambda s: {**s, name: frequencies * 2})
    with pytest.raises(ValueError, match=r"layers\.0\.self_attn\.rotary_emb\.inv_freq holds other rotary frequencies"):
        GPT.from_pretrained(tmp_path)


# --- nanoGPT ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_nanogpt_checkpoints(tmp_path: Path, bias: bool, prefix: str) -> None:
    """Its numbers, by its own formulas: Linear weights [out, in], exact GELU, biases optional."""
    import torch.nn.functional as F

    generator = torch.Generator().manual_seed(0)
    args = dict(n_layer=2, n_head=2, n_embd=8, block_size=12, bias=bias, vocab_size=11, dropout=0.1)
    shapes = {"wte.weight": (11, 8), "wpe.weight": (12, 8), "ln_f.weight": (8,)} | {
        f"h.{i}.{name}.weight": shape
        for i in range(2)
        for name, shape in {
            "ln_1": (8,), "attn.c_attn": (24, 8), "attn.c_proj": (8, 8), "ln_2": (8,), "mlp.c_fc": (32, 8),
            "mlp.c_proj": (8, 32),
        }.items()
    }  # fmt: skip
    if bias:
        shapes |= {k.replace("weight", "bias"): v[:1] for k, v in shapes.items() if k[0] != "w"}
    w = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    state = {f"{prefix}transformer.{name}": tensor for name, tensor in w.items()}
    state[f"{prefix}lm_head.weight"] = w["wte.weight"]
    torch.save({"model": state, "model_args": args, "iter_num": 5, "config": {"dataset": "x"}}, tmp_path / "ckpt.pt")

    def norm(x, name):
        return F.layer_norm(x, (8,), w[f"{name}.weight"], w.get(f"{name}.bias"), 1e-5)

    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    tokens_ = tokens(2, 12, d_vocab=11)
    x = w["wte.weight"][tokens_] + w["wpe.weight"]
    for i in range(2):
        q, k, v = (
            t.view(2, 12, 2, 4).transpose(1, 2)
            for t in linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(8, 2)
        )
        scores = (q @ k.transpose(-2, -1) / 2).masked_fill(torch.ones(12, 12).tril() == 0, -torch.inf)
        z = (scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 12, 8)
        x = x + linear(z, f"h.{i}.attn.c_proj")
        x = x + linear(F.gelu(linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    expected = norm(x, "ln_f") @ w["wte.weight"].T

    for name in (tmp_path, tmp_path / "ckpt.pt"):
        model = GPT.from_pretrained(name)
        assert model.config.use_bias is bias and model.config.act_fn == "gelu"
        with torch.no_grad():
            torch.testing.assert_close(model(tokens_), expected, atol=1e-4, rtol=0)
