"""LoRA adapters beside their base weights: the numbers of peft itself, or a refusal that names the field or tensor."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lab.models import open_model
from model import GPT
from model.pretrained import PretrainedError
from tests.model.references import reference
from tests.model.variants import tokens

peft = pytest.importorskip("peft")


def adapted(folder: Path, name: str = "llama", beside: bool = True, **fields: Any) -> Any:
    """A base model of transformers in ``folder`` with a trained adapter beside it (or in a folder of its own)."""
    base = reference(name)
    base.save_pretrained(folder)
    fields = {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]} | fields
    theirs = peft.get_peft_model(base, peft.LoraConfig(**fields)).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    adapter = folder if beside else folder.parent / "adapter"
    theirs.save_pretrained(adapter)
    return peft.PeftModel.from_pretrained(reference(name), adapter).eval()


def require_equal(folder: Path, theirs: Any) -> GPT:
    ours = GPT.from_pretrained(folder)
    x = tokens(2, 32)
    with torch.no_grad():
        expected = theirs(x).logits
        torch.testing.assert_close(ours(x), expected, atol=1e-4, rtol=0)
        with theirs.disable_adapter():
            assert (theirs(x).logits - expected).abs().max() > 0.05  # it matters
    return ours


LORAS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "every map": (
        "llama",
        {"target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]},
    ),
    "all-linear": ("llama", {"target_modules": "all-linear"}),
    "a pattern of names": ("llama", {"target_modules": r".*\.1\..*(q|down)_proj"}),
    "rank stabilised": ("llama", {"use_rslora": True}),
    "ranks of their own": ("llama", {"rank_pattern": {"q_proj": 2, "layers.1.self_attn.v_proj": 3}}),
    "alphas of their own": ("llama", {"alpha_pattern": {"v_proj": 1, r".*layers\.0.*": 5}}),
    "some layers": ("llama", {"layers_to_transform": [1]}),
    "one layer, by its pattern": ("llama", {"layers_to_transform": 0, "layers_pattern": "layers"}),
    "some left out": ("llama", {"target_modules": r".*_proj", "exclude_modules": ["q_proj", "down_proj"]}),
    "whole modules": ("llama", {"modules_to_save": ["lm_head", "input_layernorm"]}),
    "the embedding": ("llama", {"target_modules": ["embed_tokens", "q_proj"]}),
    "biases": ("llama-biases", {"bias": "all"}),
    "biases of what changes": ("llama-biases", {"bias": "lora_only"}),
    "a tied model": ("llama-tied", {}),
    "qwen2": ("qwen2", {"target_modules": ["q_proj", "k_proj"], "bias": "all"}),
    "qwen3": ("qwen3", {"target_modules": ["q_proj", "o_proj"], "modules_to_save": ["q_norm"]}),
    "starcoder2": ("starcoder2", {"target_modules": ["c_fc", "c_proj"]}),
    "gpt2": ("gpt2", {"target_modules": ["c_attn", "c_proj", "c_fc"]}),
    "gpt2, said to be the other way": ("gpt2", {"target_modules": ["c_attn"], "fan_in_fan_out": True}),
    "gpt2 with biases": ("gpt2", {"target_modules": ["c_attn"], "bias": "all", "modules_to_save": ["ln_f"]}),
    "gpt2 positions": ("gpt2-untied", {"target_modules": ["wpe", "wte", "c_fc"]}),
}


@pytest.mark.parametrize("case", LORAS)
def test_merged_as_peft_does(case: str, tmp_path: Path) -> None:
    name, fields = LORAS[case]
    theirs = adapted(tmp_path / "model", name, **fields)
    ours = require_equal(tmp_path / "model", theirs)
    again = GPT.from_pretrained(tmp_path / "model")
    assert all(torch.equal(p, q) for p, q in zip(ours.parameters(), again.parameters(), strict=True))


def test_in_a_torch_file_and_half_precision(tmp_path: Path) -> None:
    theirs = adapted(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "lora_" in name:
                parameter.copy_(parameter.half().float())
    torch.save({name: tensor.half() for name, tensor in load_file(path).items()}, tmp_path / "adapter_model.bin")
    path.unlink()
    require_equal(tmp_path, theirs)


def test_an_adapter_alone_is_opened_on_the_base_that_it_names(tmp_path: Path) -> None:
    base, alone = tmp_path / "base", tmp_path / "adapter"
    theirs = adapted(base, beside=False)
    config = json.loads((alone / "adapter_config.json").read_text())
    (alone / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(base)}))
    require_equal(alone, theirs)
    assert torch.equal(open_model(alone)(tokens()), GPT.from_pretrained(alone)(tokens()))
    for other in ("someone/llama", "/nowhere/base", None, ""):
        (alone / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": other}))
        for load in (GPT.from_pretrained, open_model):
            with pytest.raises(PretrainedError, match="holds an adapter alone") as told:
                load(alone)
            assert not other or other in str(told.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"peft_type": "PROMPT_TUNING"}, "peft_type is 'PROMPT_TUNING'"),
        ({"peft_type": None}, "peft_type is None"),
        ({"use_dora": True}, "use_dora is True"),
        ({"lora_bias": True}, "lora_bias is True"),
        ({"layer_replication": [[0, 2]]}, r"layer_replication is \[\[0, 2\]\]"),
        ({"target_parameters": ["x"]}, "target_parameters is"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices is"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
        ({"a_field_of_tomorrow": 0.5}, "a_field_of_tomorrow is 0.5"),
        ({"r": 3}, r"with r 3 they must be \[3, 16\] and \[16, 3\]"),
        ({"r": "four"}, "r is 'four'"),
        ({"lora_alpha": float("nan")}, "lora_alpha is nan"),
        ({"rank_pattern": {"q_proj": 1}}, "with r 1 they must be"),
        ({"rank_pattern": {"(": 1}}, "rank_pattern is .*no regular expression"),
        ({"rank_pattern": [1]}, r"rank_pattern is \[1\]"),
        ({"bias": "some"}, "bias is 'some'"),
        ({"bias": 3}, "bias is 3"),
        ({"target_modules": 3}, "target_modules is 3"),
        ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, r"lacks the tensor 'model\.layers\.0\.self_attn\.o_proj"),
        ({"modules_to_save": ["lm_head"]}, r"lacks the tensor 'lm_head\.weight'"),
    ],
)
def test_fields_that_cannot_be_merged_are_named(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    adapted(tmp_path)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(tmp_path)


@pytest.mark.parametrize("case", ["every map", "whole modules", "biases", "gpt2", "qwen2"])
def test_each_tensor_of_an_adapter_left_out_is_named(case: str, tmp_path: Path) -> None:
    name, fields = LORAS[case]
    adapted(tmp_path, name, **fields)
    path = tmp_path / "adapter_model.safetensors"
    whole = load_file(path)
    for left_out in whole:
        save_file({k: v for k, v in whole.items() if k != left_out}, path)
        if left_out.endswith(".base_layer.weight"):  # what peft saves of the base, unchanged
            GPT.from_pretrained(tmp_path)
            continue
        bare = left_out.removeprefix("base_model.model.").replace(".base_layer", "")
        with pytest.raises(PretrainedError, match=f"lacks the tensor '{bare}'"):
            GPT.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "extra",
    ["base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight", "base_model.model.score.weight",
     "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", "base_model.model.model.layers.0.ia3_l",
     "base_model.model.model.layers.0.input_layernorm.lora_A.weight"],
)  # fmt: skip
def test_each_tensor_of_an_adapter_too_many_is_named(extra: str, tmp_path: Path) -> None:
    adapted(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    save_file({**load_file(path), extra: torch.ones(4, 16)}, path)
    with pytest.raises(PretrainedError, match=r"the adapter's tensor .* belongs to no tensor of the model"):
        GPT.from_pretrained(tmp_path)


@pytest.mark.parametrize(("target", "saved"), [("embed_tokens", None), ("q_proj", ["embed_tokens"])])
def test_one_matrix_that_embeds_and_unembeds_is_not_changed_for_one_of_them(
    target: str, saved: list[str] | None, tmp_path: Path
) -> None:
    adapted(tmp_path, "llama-tied", target_modules=[target], modules_to_save=saved)
    with pytest.raises(PretrainedError, match=r"changes model\.embed_tokens\.weight, which embeds and unembeds"):
        GPT.from_pretrained(tmp_path)


def test_files_of_an_adapter_that_are_missing_or_damaged(tmp_path: Path) -> None:
    adapted(tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(PretrainedError, match=r"adapter_model\.safetensors is no whole safetensors file"):
        GPT.from_pretrained(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(PretrainedError, match="no weights of an adapter"):
        GPT.from_pretrained(tmp_path)
    for text in ("[]", "{", "[" * 100_000):
        (tmp_path / "adapter_config.json").write_text(text)
        with pytest.raises(PretrainedError, match=r"adapter_config\.json"):
            GPT.from_pretrained(tmp_path)
    (tmp_path / "adapter_config.json").unlink()
    GPT.from_pretrained(tmp_path)  # the base alone is a model


def test_weights_of_an_adapter_are_no_weights_of_a_model(tmp_path: Path) -> None:
    adapted(tmp_path / "base")
    folder = tmp_path / "x"
    folder.mkdir()
    for name in ("config.json", "adapter_model.safetensors"):
        shutil.copy(tmp_path / "base" / name, folder)
    with pytest.raises(PretrainedError, match="holds a config but no weights"):
        GPT.from_pretrained(folder)
