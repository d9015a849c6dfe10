"""GGUF files of small random models, written with the gguf package as llama.cpp's converter writes them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import gguf
import torch

from tests.model.references import MODELS, stir

# name -> (architecture in GGUF, class stem in transformers, config)
ARCHITECTURES = {
    name: (architecture, *MODELS[name])
    for architecture, name in {
        "gpt2": "gpt2", "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "starcoder2": "starcoder2",
        "stablelm": "stablelm",
    }.items()
}  # fmt: skip


def their_model(name: str, **changes: Any) -> Any:
    """transformers' own class, built directly with the values."""
    import transformers

    _, stem, values = ARCHITECTURES[name]
    values = {**deepcopy(values), **changes}
    if name == "starcoder2":
        values["sliding_window"] = None
    config = getattr(transformers, f"{stem}Config")(**values, attn_implementation="eager")
    model = getattr(transformers, f"{stem}LMHeadModel" if stem == "GPT2" else f"{stem}ForCausalLM")(config).eval()
    stir(model)
    return model


def keys_of(name: str, config: Any) -> dict[str, Any]:
    """The keys that the converter writes for a model of transformers, without the architecture's name."""
    if name == "gpt2":
        return {
            "context_length": config.n_positions,
            "embedding_length": config.n_embd,
            "block_count": config.n_layer,
            "feed_forward_length": config.n_inner or 4 * config.n_embd,
            "attention.head_count": config.n_head,
            "attention.layer_norm_epsilon": config.layer_norm_epsilon,
        }
    eps = {"starcoder2": "norm_epsilon", "stablelm": "layer_norm_eps"}.get(name)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    keys = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.dimension_count": width,
        "rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "vocab_size": config.vocab_size,
    }
    return keys | (
        {"attention.layer_norm_epsilon": getattr(config, eps)}
        if eps
        else {"attention.layer_norm_rms_epsilon": config.rms_norm_eps}
    )


def tensors_of(name: str, model: Any) -> dict[str, torch.Tensor]:
    """The tensors under llama.cpp's names, queries and keys of a Llama permuted, Conv1D turned to Linear."""
    architecture = next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == ARCHITECTURES[name][0])
    config = model.config
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    found = {}
    for theirs, tensor in model.state_dict().items():
        if theirs == "lm_head.weight" and config.tie_word_embeddings:
            continue
        module, kind = theirs.rsplit(".", 1)
        if name == "gpt2" and kind == "weight" and module.endswith(("c_attn", "c_proj", "c_fc")):
            tensor = tensor.T
        if name == "llama" and module.endswith(("q_proj", "k_proj")):
            heads = config.num_attention_heads if module.endswith("q_proj") else config.num_key_value_heads
            tensor = tensor.unflatten(0, (heads, 2, -1)).transpose(1, 2).reshape(tensor.shape)
        found[f"{names.get_name(module)}.{kind}"] = tensor.contiguous()
    return found


def write(
    path: Path, architecture: str, keys: Mapping[str, Any], tensors: Mapping[str, Any], general: Mapping[str, Any] = {}
) -> Path:
    """One GGUF file. general: keys with their whole names. A tensor that is no torch tensor is written as it is."""
    writer = gguf.GGUFWriter(None, architecture)
    for key, value in [*((f"{architecture}.{k}", v) for k, v in keys.items()), *general.items()]:
        if key == "split.no" or key == "split.count":
            writer.add_uint16(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    for key, tensor in tensors.items():
        writer.add_tensor(key, tensor.numpy() if isinstance(tensor, torch.Tensor) else tensor)
    writer.write_header_to_file(path=path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_model(path: Path, name: str, model: Any, keys: Mapping[str, Any] = {}, drop: tuple[str, ...] = ()) -> Path:
    """A model of transformers as GGUF, with some keys changed or added and some tensors left out."""
    wanted = {**keys_of(name, model.config), **keys}
    tensors = {k: v for k, v in tensors_of(name, model).items() if k not in drop}
    return write(path, ARCHITECTURES[name][0], {k: v for k, v in wanted.items() if v is not None}, tensors)
