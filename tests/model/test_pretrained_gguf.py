"""GGUF: every tensor and every key that changes the numbers is applied as the source does, or refused by its name."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model import GPT, GPTConfig
from model.pretrained import PretrainedError
from tests.model.references import ROPES
from tests.model.variants import tokens

gguf = pytest.importorskip("gguf", reason="needs the gguf package: pip install 'residlab[gguf]'")

from tests.model.ggufs import ARCHITECTURES, keys_of, tensors_of, their_model, write, write_model  # noqa: E402


def require_equal(path: Path, theirs: Any, length: int = 32) -> GPT:
    ours = GPT.from_pretrained(path)
    x = tokens(2, length)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x).logits, atol=1e-4, rtol=0)
    return ours


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_equal_transformers(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    ours = require_equal(write_model(tmp_path / "x.gguf", name, theirs), theirs)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "stablelm"])
def test_an_output_of_its_own_or_the_embedding(name: str, tmp_path: Path) -> None:
    for tied in (True, False):
        theirs = their_model(name, tie_word_embeddings=tied)
        ours = require_equal(write_model(tmp_path / "x.gguf", name, theirs), theirs)
        assert ours.config.tie_word_embeddings is tied


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_tensor_left_out_is_named(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    for left_out in tensors_of(name, theirs):
        path = write_model(tmp_path / "x.gguf", name, theirs, drop=(left_out,))
        if left_out == "output.weight" and name != "stablelm":
            assert GPT.from_pretrained(path).config.tie_word_embeddings  # as llama.cpp takes it
            continue
        with pytest.raises(PretrainedError, match=re.escape(f"tensor {left_out!r} is missing")):
            GPT.from_pretrained(path)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    "extra",
    [
        "output.bias", "token_embd_norm.weight", "rope_factors_long.weight", "blk.0.attn_sinks.weight",
        "blk.0.ffn_gate_inp.weight", "blk.0.post_attention_norm.weight", "blk.2.attn_norm.weight",
        "blk.0.attn_q.scale", "blk.0.attn_norm.weight.lora_a", "cls.weight",
    ],
)  # fmt: skip
def test_each_tensor_too_many_is_named(name: str, extra: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    path = write(
        tmp_path / "x.gguf",
        ARCHITECTURES[name][0],
        keys_of(name, theirs.config),
        {**tensors_of(name, theirs), extra: torch.ones(16)},
    )
    with pytest.raises(PretrainedError, match=re.escape(f"unknown tensor {extra!r}")):
        GPT.from_pretrained(path)


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "starcoder2", "stablelm", "gpt2"])
def test_rope_factors_of_an_architecture_that_does_not_read_them(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    tensors = {**tensors_of(name, theirs), "rope_freqs.weight": torch.full((2,), 2.0)}
    path = write(tmp_path / "x.gguf", ARCHITECTURES[name][0], keys_of(name, theirs.config), tensors)
    with pytest.raises(PretrainedError, match=r"rope_freqs\.weight"):
        GPT.from_pretrained(path)


@pytest.mark.parametrize("biases", [("attention_bias",), ("mlp_bias",), ("attention_bias", "mlp_bias")])
def test_biases_of_llamas(biases: tuple[str, ...], tmp_path: Path) -> None:
    theirs = their_model("llama", **dict.fromkeys(biases, True))
    require_equal(write_model(tmp_path / "x.gguf", "llama", theirs), theirs)


def test_biases_of_queries_keys_and_values_alone(tmp_path: Path) -> None:
    theirs = their_model("llama", attention_bias=True)
    with torch.no_grad():
        for layer in theirs.model.layers:
            layer.self_attn.o_proj.bias.zero_()
    drop = ("blk.0.attn_output.bias", "blk.1.attn_output.bias")
    ours = require_equal(write_model(tmp_path / "x.gguf", "llama", theirs, drop=drop), theirs)
    assert ours.config.attention_bias == "qkv"
    for one in ("blk.0.attn_k.bias", "blk.1.attn_v.bias"):
        with pytest.raises(PretrainedError, match=re.escape(f"tensor '{one}' is missing")):
            GPT.from_pretrained(write_model(tmp_path / "y.gguf", "llama", theirs, drop=(*drop, one)))


# --- keys ------------------------------------------------------------------------------------------------------


def factors_of_llama3(config: Any) -> torch.Tensor:
    """rope_freqs as llama.cpp's converter computes them from llama3's fields (LlamaModel.generate_extra_tensors)."""
    rope = config.rope_parameters
    dim = config.head_dim
    frequencies = 1.0 / (rope["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    low_wave, high_wave = (rope["original_max_position_embeddings"] / rope[f"{k}_freq_factor"] for k in ("low", "high"))
    factors = []
    for frequency in frequencies:
        wave = 2 * math.pi / frequency
        if wave < high_wave:
            factors.append(1.0)
        elif wave > low_wave:
            factors.append(rope["factor"])
        else:
            smooth = rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]
            smooth /= rope["high_freq_factor"] - rope["low_freq_factor"]
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return torch.tensor(factors, dtype=torch.float32)


def test_rope_factors_of_llama_3(tmp_path: Path) -> None:
    rope = {**ROPES["llama3"], "rope_theta": 500.0, "original_max_position_embeddings": 256}
    theirs = their_model("llama", head_dim=16, max_position_embeddings=1200, rope_parameters=rope)
    factors = factors_of_llama3(theirs.config)
    assert (factors == 1).any() and (factors == 8).any() and ((factors > 1) & (factors < 8)).any()
    tensors = {**tensors_of("llama", theirs), "rope_freqs.weight": factors}
    path = write(tmp_path / "x.gguf", "llama", keys_of("llama", theirs.config), tensors)
    ours = require_equal(path, theirs, length=1000)
    assert ours.config.rotary_scaling.kind == "factors"
    assert GPTConfig.from_dict(ours.config.to_dict()) == ours.config
    plain = GPT.from_pretrained(write_model(tmp_path / "y.gguf", "llama", theirs))
    with torch.no_grad():
        x = tokens(1, 1000)
        assert (plain(x) - ours(x)).abs().max() > 0.1  # they matter
    # and out again, for transformers to read
    import transformers

    ours.save_pretrained(tmp_path / "out")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(x).logits, theirs(x).logits, atol=1e-4, rtol=0)
    assert GPT.from_pretrained(tmp_path / "out").config == ours.config


@pytest.mark.parametrize(
    ("factors", "keys", "words"),
    [
        (torch.ones(3), {}, "factors"),
        (torch.tensor([1.0, float("nan")]), {}, "factors has nan"),
        (torch.tensor([1.0, 0.0]), {}, "factors has 0"),
        (torch.tensor([1.0, 2.0]), {"rope.scaling.factor": 4.0}, r"llama\.rope\.scaling\.factor"),
    ],
)
def test_rope_factors_that_do_not_fit(factors: torch.Tensor, keys: Any, words: str, tmp_path: Path) -> None:
    theirs = their_model("llama")
    tensors = {**tensors_of("llama", theirs), "rope_freqs.weight": factors * 1.5}
    path = write(tmp_path / "x.gguf", "llama", {**keys_of("llama", theirs.config), **keys}, tensors)
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(path)


SCALINGS = {
    "linear": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    "linear without its type": {"rope.scaling.factor": 4.0},
    "linear by its old name": {"rope.scale_linear": 4.0},
    "yarn": {"rope.scaling.type": "yarn", "rope.scaling.factor": 3.0, "rope.scaling.original_context_length": 16},
    "yarn of other turns": {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 3.0,
        "rope.scaling.original_context_length": 16,
        "rope.scaling.yarn_beta_fast": 2.0,
        "rope.scaling.yarn_beta_slow": 0.5,
    },
    "none": {"rope.scaling.type": "none", "rope.scaling.factor": 4.0},
    "by 1": {"rope.scaling.type": "linear", "rope.scaling.factor": 1.0},
}


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "starcoder2", "stablelm"])
@pytest.mark.parametrize("case", SCALINGS)
def test_scaled_rotary_positions(name: str, case: str, tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}
    if case.startswith("linear"):
        rope |= {"rope_type": "linear", "factor": 4.0}
    if case.startswith("yarn"):
        rope |= {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 16}
    if "turns" in case:
        rope |= {"beta_fast": 2.0, "beta_slow": 0.5}
    theirs = their_model(name, rope_parameters=rope)
    require_equal(write_model(tmp_path / "x.gguf", name, theirs, SCALINGS[case]), theirs)


CHANGED = {
    "rope.freq_base": lambda config: config.rope_parameters.update(rope_theta=100.0),
    "attention.layer_norm_rms_epsilon": lambda config: setattr(config, "rms_norm_eps", 0.25),
    "attention.layer_norm_epsilon": lambda config: [
        setattr(config, k, 0.25) for k in ("layer_norm_epsilon", "norm_epsilon", "layer_norm_eps")
    ],
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_number_changed_is_applied_or_refused(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    before = theirs(tokens(2, 32)).logits
    applied = set()
    for key, value in keys_of(name, theirs.config).items():
        changed = 0.25 if "epsilon" in key else 100.0 if isinstance(value, float) else value + 1
        path = write_model(tmp_path / "x.gguf", name, theirs, {key: changed})
        if key in CHANGED:
            other = their_model(name)
            CHANGED[key](other.config)
            other = type(other)(other.config).eval()
            other.load_state_dict(theirs.state_dict())
            assert (other(tokens(2, 32)).logits - before).abs().max() > 1e-3
            require_equal(path, other)
            applied.add(key)
        elif key == "context_length" and name != "gpt2":
            assert GPT.from_pretrained(path).config.n_ctx == 33
        else:
            with pytest.raises(PretrainedError, match=r"shape|missing|describes no model|is [59]: it computes"):
                GPT.from_pretrained(path)
    assert len(applied) == (1 if name == "gpt2" else 2)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_key_left_out_is_named_or_has_llama_cpps_default(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    expected = GPT.from_pretrained(write_model(tmp_path / "x.gguf", name, theirs)).config
    optional = {
        "attention.key_length", "attention.value_length", "rope.dimension_count", "rope.freq_base", "vocab_size",
        "attention.head_count_kv",
    }  # fmt: skip
    for key in keys_of(name, theirs.config):
        path = write_model(tmp_path / "x.gguf", name, theirs, {key: None})
        if key == "attention.head_count_kv" or (key == "attention.key_length" and expected.d_head != 4):
            with pytest.raises(PretrainedError, match=r"has shape|is 8: it computes"):  # another model, by its default
                GPT.from_pretrained(path)
        elif key in optional:
            assert GPT.from_pretrained(path).config == expected
        else:
            with pytest.raises(PretrainedError, match=re.escape(f"lacks the key '{name}.{key}'")):
                GPT.from_pretrained(path)


REFUSED: dict[str, Any] = {
    "logit_scale": 0.5,
    "residual_scale": 0.5,
    "embedding_scale": 12.0,
    "attention.scale": 0.1,
    "attention.output_scale": 0.5,
    "attention.clamp_kqv": 8.0,
    "attention.max_alibi_bias": 8.0,
    "attention.sliding_window": 5,
    "attention.causal": False,
    "attention.value_length": 9,
    "attention.temperature_length": 8,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "use_parallel_residual": True,
    "expert_count": 8,
    "expert_used_count": 2,
    "expert_weights_scale": 2.5,
    "rope.dimension_sections": [1, 1],
    "rope.freq_base_swa": 100.0,
    "rope.scaling.alpha": 2.0,
    "nextn_predict_layers": 1,
    "tensor_data_layout": "strange",
    "something.new": 1,
}
REFUSED_ROTARY: dict[str, Any] = {
    "rope.dimension_count": 2,
    "rope.scaling.type": "longrope",
    "rope.scaling.attn_factor": 1.2,
    "rope.scaling.yarn_log_multiplier": 0.1,
    "rope.scaling.yarn_ext_factor": 0.5,
    "rope.scaling.yarn_attn_factor": 0.5,
}


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("key", [*REFUSED, *REFUSED_ROTARY])
def test_keys_that_would_change_the_numbers_are_named(name: str, key: str, tmp_path: Path) -> None:
    value = REFUSED.get(key, REFUSED_ROTARY.get(key))
    path = write_model(tmp_path / "x.gguf", name, their_model(name), {key: value})
    with pytest.raises(PretrainedError, match=re.escape(f"'{name}.{key}'")):
        GPT.from_pretrained(path)


@pytest.mark.parametrize(
    "keys",
    [
        {"logit_scale": 1.0, "attention.causal": True, "attention.sliding_window": 32, "expert_count": 0},
        {"attention.scale": 0.5, "use_parallel_residual": False, "embedding_length_out": 16, "pooling_type": 1},
        {"attention.head_count_kv": [2, 2], "feed_forward_length": [40, 40]},
        {"tensor_data_layout": "Meta AI original pth", "final_logit_softcapping": 0.0, "rope.scaling.attn_factor": 1.0},
    ],
)
def test_keys_that_change_nothing_are_no_reason_to_refuse(keys: dict[str, Any], tmp_path: Path) -> None:
    theirs = their_model("llama")
    require_equal(write_model(tmp_path / "x.gguf", "llama", theirs, keys), theirs)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"attention.head_count_kv": [2, 1]}, r"'llama\.attention\.head_count_kv' is \[2, 1\]: layers of different"),
        ({"feed_forward_length": [40, 20]}, r"'llama\.feed_forward_length'"),
        ({"attention.head_count": "4"}, r"'llama\.attention\.head_count' is '4'"),
        ({"block_count": 2.0}, r"'llama\.block_count' is 2\.0"),
        ({"rope.freq_base": float("nan")}, r"'llama\.rope\.freq_base' is not a number"),
        ({"attention.layer_norm_rms_epsilon": -1.0}, "eps is -1"),
        ({"block_count": 4_000_000_000}, "n_layers is 4000000000"),
    ],
)
def test_keys_of_another_kind_are_named(keys: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(write_model(tmp_path / "x.gguf", "llama", their_model("llama"), keys))


@pytest.mark.parametrize(
    ("architecture", "general", "words"),
    [
        ("gemma2", {}, "general.architecture is 'gemma2'; what can be read are gpt2, llama"),
        ("llama", {"general.type": "adapter"}, "general.type is 'adapter': it holds no whole model"),
        ("llama", {"general.type": "mmproj"}, "general.type is 'mmproj'"),
        ("llama", {"adapter.lora.alpha": 16.0}, "key 'adapter.lora.alpha' is 16.0"),
        ("llama", {"xielu.eps": 1.0}, "key 'xielu.eps' is 1.0"),
    ],
)
def test_files_that_are_no_model_of_these(architecture: str, general: Any, words: str, tmp_path: Path) -> None:
    theirs = their_model("llama")
    keys, tensors = keys_of("llama", theirs.config), tensors_of("llama", theirs)
    with pytest.raises(PretrainedError, match=re.escape(words)):
        GPT.from_pretrained(write(tmp_path / "x.gguf", architecture, keys, tensors, general))


# --- what numbers are kept in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
def test_quantised_weights_act_as_the_numbers_they_stand_for(kind: str, tmp_path: Path) -> None:
    theirs = their_model("llama", hidden_size=32, intermediate_size=64)
    qtype = gguf.GGMLQuantizationType[kind]
    keys, tensors = keys_of("llama", theirs.config), tensors_of("llama", theirs)
    writer = gguf.GGUFWriter(None, "llama")
    for key, value in keys.items():
        (writer.add_uint32 if isinstance(value, int) else writer.add_float32)(f"llama.{key}", value)
    rounded = {}
    for name, tensor in tensors.items():
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor.numpy())
            rounded[name] = tensor
            continue
        data = gguf.quants.quantize(tensor.numpy(), qtype)
        writer.add_tensor(name, data, raw_dtype=qtype)
        rounded[name] = torch.from_numpy(np.array(gguf.quants.dequantize(data, qtype)))
    writer.write_header_to_file(path=tmp_path / "x.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    plain = write(tmp_path / "plain.gguf", "llama", keys, rounded)
    ours, expected = GPT.from_pretrained(tmp_path / "x.gguf"), GPT.from_pretrained(plain)
    assert all(torch.equal(p, q) for p, q in zip(ours.parameters(), expected.parameters(), strict=True))


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_whole_numbers_are_no_weights(dtype: Any, tmp_path: Path) -> None:
    theirs = their_model("llama")
    tensors = {**tensors_of("llama", theirs), "blk.0.ffn_up.weight": np.ones((40, 16), dtype=dtype)}
    path = write(tmp_path / "x.gguf", "llama", keys_of("llama", theirs.config), tensors)
    with pytest.raises(PretrainedError, match=r"blk\.0\.ffn_up\.weight is torch\.int"):
        GPT.from_pretrained(path)


# --- files in parts, and damaged ones --------------------------------------------------------------------------


def split(folder: Path, count: int = 3) -> tuple[Any, list[Path]]:
    """A model in parts, as llama-gguf-split makes them: all keys in the first, split.* in each."""
    theirs = their_model("llama")
    tensors = tensors_of("llama", theirs)
    names = list(tensors)
    paths = []
    for number in range(count):
        part = {name: tensors[name] for name in names[number::count]}
        keys = keys_of("llama", theirs.config) if number == 0 else {}
        note = {"split.no": number, "split.count": count, "split.tensors.count": len(tensors)}
        path = folder / f"x-{number + 1:05d}-of-{count:05d}.gguf"
        paths.append(write(path, "llama", keys, part, note))
    return theirs, paths


def test_parts_are_joined(tmp_path: Path) -> None:
    theirs, paths = split(tmp_path)
    for path in (*paths, tmp_path):
        require_equal(path, theirs)


@pytest.mark.parametrize("number", range(3))
def test_a_part_that_is_missing_is_named(number: int, tmp_path: Path) -> None:
    _, paths = split(tmp_path)
    paths[number].unlink()
    for path in (*(p for p in paths if p.exists()), tmp_path):
        with pytest.raises(PretrainedError, match=rf"{paths[number].name} is missing"):
            GPT.from_pretrained(path)


def test_parts_under_other_names(tmp_path: Path) -> None:
    _, paths = split(tmp_path)
    shutil.copy(paths[0], tmp_path / "model.gguf")
    with pytest.raises(PretrainedError, match=r"model\.gguf is part 1 of 3 of a split model, but its name"):
        GPT.from_pretrained(tmp_path / "model.gguf")
    shutil.copy(paths[2], paths[1])
    with pytest.raises(PretrainedError, match=r"x-00002-of-00003\.gguf says that it is part 2 \(from 0\)"):
        GPT.from_pretrained(paths[0])
    (tmp_path / "model.gguf").unlink()
    write_model(tmp_path / "other.gguf", "llama", their_model("llama"))
    with pytest.raises(PretrainedError, match=r"several GGUF files \(other\.gguf, x-00001-of-00003\.gguf\)"):
        GPT.from_pretrained(tmp_path)


def test_damaged_files_are_said_to_be_that(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "x.gguf", "llama", their_model("llama")).read_bytes()
    path = tmp_path / "y.gguf"
    cuts = (4, 5, 8, 12, 23, 24, 40, 100, 200, 600, 1000, 2000, len(whole) - 33, len(whole) // 2)
    for spoilt in [whole[:cut] for cut in cuts]:
        path.write_bytes(spoilt)
        with pytest.raises(PretrainedError, match=r"y\.gguf is a damaged GGUF file, or cut short"):
            GPT.from_pretrained(path)
    generator = np.random.default_rng(0)
    for _ in range(60):  # one byte of the head changed: some other model, or refused in one sentence
        spoilt = bytearray(whole)
        spoilt[int(generator.integers(4, 900))] ^= int(generator.integers(1, 256))
        path.write_bytes(bytes(spoilt))
        try:
            GPT.from_pretrained(path)
        except PretrainedError as error:
            assert "y.gguf" in str(error) and "\n" not in str(error)
