"""config.json: every key that changes the numbers is applied as transformers does, or refused by its name."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model import GPT
from model.pretrained import PretrainedError, describe_pretrained
from tests.model.references import MODELS, reference
from tests.model.variants import tokens

FAMILIES = (
    "gpt2", "gpt2-untied", "llama-biases", "llama-linear", "llama-yarn-scaled", "llama-llama3", "mistral",
    "qwen2-window", "qwen3-tied", "arcee", "starcoder2", "stablelm",
)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name in FAMILIES:
        found[name] = tmp_path_factory.mktemp(name)
        reference(name).save_pretrained(found[name])
    return found


def their_logits(folder: Path) -> torch.Tensor | None:
    """What transformers computes for a folder; None where it makes up weights or does not open it."""
    import transformers

    try:
        theirs, told = transformers.AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager", output_loading_info=True, local_files_only=True
        )
        if told["missing_keys"] or told["mismatched_keys"] or told["unexpected_keys"]:
            return None
        with torch.no_grad():
            return theirs.eval()(tokens(2, 20)).logits
    except Exception:  # whatever a config that makes no sense causes there
        return None


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        elif isinstance(value, (bool, int, float)):
            yield (*path, key), value


def edited(folder: Path, target: Path, path: tuple[str, ...], value: Any) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    config = json.loads((folder / "config.json").read_text())
    at = config
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    (target / "config.json").write_text(json.dumps(config))
    return target


def changes(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value // 2, 1), 2 * value]
    return [value * 2, value / 2 + 0.01]


@pytest.mark.parametrize("name", FAMILIES)
def test_each_number_of_a_config_changed_is_applied_or_refused(
    name: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    before = GPT.from_pretrained(folders[name])
    config = json.loads((folders[name] / "config.json").read_text())
    moved = 0
    for path, value in leaves(config):
        for changed in changes(value):
            folder = edited(folders[name], tmp_path / "x", path, changed)
            try:
                ours = GPT.from_pretrained(folder)
            except PretrainedError as error:
                assert "\n" not in str(error)
                continue
            expected = their_logits(folder)
            if expected is None:
                assert ours.config == before.config, path
                continue
            with torch.no_grad():
                logits = ours(tokens(2, 20)) if ours.config.n_ctx >= 20 else None
                if logits is None:  # a shorter context is one that is cut to
                    x = tokens(2, 20)[:, : ours.config.n_ctx]
                    logits, expected = ours(x), expected[:, : ours.config.n_ctx]
                torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0, msg=f"{path} = {changed}")
                moved += not torch.allclose(logits, before(tokens(2, 20))[:, : logits.shape[1]], atol=1e-4)
    assert moved >= (0 if name.startswith("gpt2") else 2)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_tensor_left_out_or_too_many_is_named(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copy(folders[name] / "config.json", tmp_path)
    whole = load_file(folders[name] / "model.safetensors")
    path = tmp_path / "model.safetensors"
    for left_out in whole:
        save_file({k: v for k, v in whole.items() if k != left_out}, path)
        bare = left_out.removeprefix("transformer.").removeprefix("model.")
        with pytest.raises(PretrainedError, match=re.escape(f"tensor {bare!r} is missing")):
            GPT.from_pretrained(tmp_path)
    prefix = next(key for key in whole if key != "lm_head.weight").split(".")[0]
    for extra in ("x.weight", "layers.0.x", "layers.9.input_layernorm.weight", "h.0.attn.c_attn.g_idx", "norm.b"):
        save_file({**whole, f"{prefix}.{extra}": torch.ones(16)}, path)
        with pytest.raises(PretrainedError, match=re.escape(f"unknown tensor '{prefix}.{extra}'")):
            GPT.from_pretrained(tmp_path)
    for extra in ("lm_head.bias", "score.weight", "v_head.summary.weight"):
        save_file({**whole, extra: torch.ones(16)}, path)
        with pytest.raises(PretrainedError, match=re.escape(extra)):
            GPT.from_pretrained(tmp_path)


STRANGE = (None, [], {}, "x", float("nan"), float("inf"), -1, 0, 10**30, 1e300, True, [1, 2], {"a": 1}, "10" * 3000)


@pytest.mark.parametrize("name", ["gpt2", "llama-llama3", "qwen2-window", "starcoder2"])
def test_values_of_any_kind_end_in_a_model_or_one_sentence(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    config = json.loads((folders[name] / "config.json").read_text())
    paths = [(key,) for key in config] + [path for path, _ in leaves(config) if len(path) > 1]
    for path in paths:
        for value in STRANGE:
            folder = edited(folders[name], tmp_path / "x", path, value)
            try:
                GPT.from_pretrained(folder)
            except PretrainedError as error:
                assert ("\n" not in str(error) and "config.json" in str(error)) or "safetensors" in str(error), path
                assert len(str(error)) < 2000
            with suppress(PretrainedError):
                describe_pretrained(folder)


# --- rotary positions ------------------------------------------------------------------------------------------

TRAINED = "original_max_position_embeddings"
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}
FULL = {"full_attention": LINEAR}
BOTH = {"full_attention": LINEAR, "sliding_attention": LINEAR}


def rotary(tmp_path: Path, name: str = "llama", **values: Any) -> Path:
    reference(name).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = {k: v for k, v in json.loads(path.read_text()).items() if k != "rope_parameters"} | values
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("llama", {"rope_parameters": FULL}),
        ("llama", {"rope_parameters": BOTH}),
        ("qwen3", {"rope_parameters": FULL}),
        ("qwen3", {"rope_parameters": {**FULL, "sliding_attention": {"rope_type": "default", "rope_theta": 7.0}}}),
        ("llama", {"rope_parameters": LINEAR}),
        ("llama", {"rope_parameters": {**LINEAR, "type": "linear"}}),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 500.0}),
        ("llama", {"rope_scaling": LINEAR, "rope_parameters": LINEAR, "rope_theta": 500.0}),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": LINEAR}),
        ("llama", {"rope_scaling": None, "rope_parameters": LINEAR, "rope_theta": None}),
        ("llama", {"rope_parameters": {**LINEAR, "partial_rotary_factor": 1.0}, "partial_rotary_factor": 1.0}),
    ],
)
def test_one_scaling_however_it_is_written(name: str, values: dict[str, Any], tmp_path: Path) -> None:
    import transformers

    stem, fields = MODELS[name]
    config = getattr(transformers, f"{stem}Config")(**fields, rope_parameters=LINEAR, attn_implementation="eager")
    theirs = getattr(transformers, f"{stem}ForCausalLM")(config).eval()
    theirs.load_state_dict(reference(name).state_dict())
    ours = GPT.from_pretrained(rotary(tmp_path, name, **values))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens(2, 32)), theirs(tokens(2, 32)).logits, atol=1e-4, rtol=0)


OTHER = {**LINEAR, "rope_theta": 7.0}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rope_parameters": {"full_attention": LINEAR, "sliding_attention": OTHER}}, "differs between"),
        ({"rope_parameters": {**FULL, "sliding_attention": None}}, "has no table for 'sliding_attention'"),
        ({"rope_parameters": {"sliding_attention": LINEAR}, "layer_types": ["full_attention"] * 2}, "has no table for"),
        ({"rope_parameters": {**FULL, "rope_theta": 500.0}}, "has 'rope_theta' beside tables for types of layers"),
        ({"rope_parameters": {"layers.0": LINEAR, "layers.1": OTHER}}, "differs between"),
        ({"rope_parameters": LINEAR, "rope_theta": 7.0}, "rope_theta is 500.0 in rope_parameters and 7.0 beside it"),
        ({"rope_parameters": LINEAR, "rope_scaling": OTHER}, "and rope_scaling disagree about rope_theta"),
        (
            {"rope_parameters": {"rope_type": "default"}, "rope_scaling": LINEAR},
            "rope_parameters and rope_scaling disagree about rope_type",
        ),
        ({"rope_parameters": {**LINEAR, "partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        ({"rope_parameters": {**LINEAR, "mrope_section": [1, 1]}}, "has 'mrope_section', which is not known here"),
        ({"rope_parameters": {**LINEAR, "factor": "4"}}, "factor is '4'; it must be a number above 0"),
        ({"rope_parameters": {**LINEAR, "factor": 0.5}}, "rotary_scaling.factor is 0.5"),
        ({"rope_parameters": {**LINEAR, "factor": float("nan")}}, "factor is nan"),
        ({"rope_parameters": {**LINEAR, "rope_type": "yarn", TRAINED: 0}}, "from 1"),
        ({"rope_parameters": {**LINEAR, "rope_type": "yarn", "truncate": False}}, "truncate false"),
        ({"rope_parameters": {**LINEAR, "rope_type": "yarn", "beta_fast": -1}}, "beta_fast is -1"),
        ({"rope_parameters": {**LINEAR, "rope_type": "proportional"}}, "rope_type 'proportional' has no counterpart"),
        ({"rope_parameters": "linear"}, "rope_parameters is 'linear', no object"),
        ({"rope_parameters": [LINEAR]}, "no object"),
        ({"rope_theta": "x"}, "rope_theta is 'x'"),
    ],
)  # fmt: skip
def test_rotary_positions_that_are_said_twice_or_have_no_counterpart(
    values: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(PretrainedError, match=re.escape(words)):
        GPT.from_pretrained(rotary(tmp_path, **values))


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "yarn", "factor": 3.0},
        {"rope_type": "yarn", "factor": 3.0, TRAINED: 5},
        {"rope_type": "yarn", "factor": 3.0, TRAINED: 16, "beta_fast": 2.0, "beta_slow": 0.1},
        {"rope_type": "yarn", "factor": None, TRAINED: 16},
        {"rope_type": "yarn", "factor": 4.0, TRAINED: 8, "mscale": 0.7, "mscale_all_dim": 0.5},
        {"rope_type": "yarn", "factor": 4.0, TRAINED: 8, "mscale": 0.7},
        {"rope_type": "dynamic", "factor": 4.0, TRAINED: 8},
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0,
         TRAINED: 24},
        {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.5, 3.0], "long_factor": [1.5, 3.0],
         TRAINED: 16},
        {"rope_type": "longrope", "short_factor": [1.5, 3.0], "long_factor": [1.5, 3.0], "attention_factor": 1.25,
         TRAINED: 16},
        {"rope_type": "longrope", "short_factor": [1.5, 3.0], "long_factor": [9.0, 9.0],
         TRAINED: 64},
    ],
)  # fmt: skip
def test_each_field_of_a_scaling_is_read_as_transformers_does(rope: dict[str, Any], tmp_path: Path) -> None:
    folder = rotary(tmp_path, rope_parameters={**rope, "rope_theta": 50.0})
    expected = their_logits(folder)
    assert expected is not None
    with torch.no_grad():
        torch.testing.assert_close(GPT.from_pretrained(folder)(tokens(2, 20)), expected, atol=1e-4, rtol=0)


def test_longrope_that_changes_with_the_length_of_the_text(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [1.0, 3.0], "factor": 2.0}
    folder = rotary(tmp_path, rope_parameters={**rope, "rope_theta": 5e2, TRAINED: 16})
    with pytest.raises(PretrainedError, match="longrope turns otherwise in texts longer than"):
        GPT.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("llama", {"layer_types": ["sliding_attention"] * 2}, "layer_types has others than 'full_attention'"),
        ("mistral", {"layer_types": ["full_attention"] * 2}, "layer_types has others than 'sliding_attention'"),
        ("mistral", {"layer_types": ["sliding_attention", "full_attention"]}, "layer_types has others than"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 2}, "layer_types has others than 'full_attention'"),
        ("qwen2-window", {"layer_types": ["sliding_attention", "full_attention"]}, "some layers have a sliding window"),
        ("qwen2-window", {"layer_types": ["linear_attention"] * 2}, "layer_types has 'linear_attention'"),
        ("qwen3", {"layer_types": ["full_attention"]}, "must be a list of one kind a layer (2)"),
        ("qwen3", {"layer_types": 3}, "layer_types is 3"),
        ("llama", {"compression_config": {"bits": 4}}, "quantised weights (compression_config)"),
        ("llama", {"quantization": {"bits": 4}}, "quantised weights (quantization)"),
        ("llama", {"quantization_config": {"quant_method": "gptq"}}, "quantised weights (quantization_config)"),
        ("gpt2", {"hidden_size": 32}, "n_embd is 16 but hidden_size 32; take one out"),
        ("gpt2", {"num_hidden_layers": 1}, "n_layer is 2 but num_hidden_layers 1"),
        ("gpt2", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ("gpt2", {"model_type": ["gpt2"]}, "model_type ['gpt2']"),
        ("gpt2", {"model_type": "smollm3"}, "model_type 'smollm3'"),
    ],
)  # fmt: skip
def test_keys_without_a_counterpart_are_named(name: str, values: Any, words: str, tmp_path: Path) -> None:
    reference(name).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    with pytest.raises(PretrainedError, match=re.escape(words)):
        GPT.from_pretrained(tmp_path)
