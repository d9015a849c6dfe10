"""config.json of transformers <-> GPTConfig: what each architecture has, and what it must not have.

A field of config.json that would change the numbers and has no counterpart here is an error, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.checks import short
from model.config import ConfigError, GPTConfig
from model.pretrained.families import FAMILIES, Values
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import Layout

RECORD = "residlab"
"""The key of config.json under which save_pretrained notes the whole GPTConfig; transformers keeps it unread."""

_QUANTISED = ("quantization_config", "compression_config", "quantization")


@dataclass(frozen=True)
class Read:
    """What a config.json describes.

    config: the model. stored: the config of the tensors in the files; it differs where a model without some biases
    was saved for a class that has them, as zeros. layout: the tensors' names.
    """

    config: GPTConfig
    stored: GPTConfig
    layout: Layout


def read_config(values: Values, origin: str) -> Read:
    """Read config.json's values. PretrainedError naming the field that is missing, damaged or without a counterpart."""
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        what = "no model_type" if model_type is None else f"model_type {short(model_type)}"
        raise PretrainedError(f"{origin} has {what}; what can be read are {', '.join(FAMILIES)}.")
    family = FAMILIES[model_type]
    for name, allowed in family.required.items():
        value = values.get(name, allowed[0])
        if value not in allowed:
            raise PretrainedError(
                f"{origin}: {model_type} with {name} {short(value)} computes something that is not here."
            )
    for name in _QUANTISED:
        if values.get(name) is not None:
            raise PretrainedError(f"{origin} describes quantised weights ({name}), which are not read.")
    if values.get("pruned_heads"):
        raise PretrainedError(f"{origin}: pruned_heads {short(values['pruned_heads'])}: layers of other shapes.")
    try:
        values = _without_aliases(values, family.aliases)
        _require_alike(values)
        config = GPTConfig(**family.read(values))
    except KeyError as error:
        raise PretrainedError(f"{origin} lacks the field {error.args[0]!r}, which {model_type} needs.") from None
    except (ConfigError, TypeError, ArithmeticError) as error:
        raise PretrainedError(f"{origin} describes no model that can be built: {error}") from None
    except PretrainedError as error:
        raise PretrainedError(f"{origin}: {error}") from None
    recorded = _recorded(values, config, origin) if isinstance(values.get(RECORD), dict) else config
    return Read(recorded, config, family.layout)


def _without_aliases(values: Values, aliases: Mapping[str, str]) -> Values:
    """The values under their own names: what transformers takes under another name too is given once."""
    given = dict(values)
    for alias, name in aliases.items():
        if alias not in values:
            continue
        if given.setdefault(name, values[alias]) != values[alias]:
            raise PretrainedError(f"{name} is {short(given[name])} but {alias} {short(values[alias])}; take one out.")
    return given


def _require_alike(values: Values) -> None:
    """Refuse layer_types that are no list of known kinds, one a layer."""
    kinds = values.get("layer_types")
    if kinds is None:
        return
    n_layers = values.get("num_hidden_layers")
    if not isinstance(kinds, list) or len(kinds) != n_layers:
        raise PretrainedError(
            f"layer_types is {short(kinds)}; it must be a list of one kind a layer ({short(n_layers)})."
        )
    known = ("full_attention", "sliding_attention")
    strange = next((kind for kind in kinds if kind not in known), None)
    if strange is not None:
        raise PretrainedError(f"layer_types has {short(strange)}, which is not here; known are {', '.join(known)}.")


def _recorded(values: Values, config: GPTConfig, origin: str) -> GPTConfig:
    """The config that save_pretrained noted, once it is seen to agree with the fields that transformers reads."""
    try:
        recorded = GPTConfig.from_dict(values[RECORD])
    except ConfigError as error:
        raise PretrainedError(f"{origin}: its {RECORD!r} entry is damaged: {error}") from None
    again = GPTConfig(**FAMILIES[values["model_type"]].read(write_config(recorded)))
    for name, value in again.to_dict().items():
        if getattr(config, name) != getattr(again, name):
            raise PretrainedError(
                f"{origin} was edited: its fields say {name} {short(getattr(config, name))}, its {RECORD!r} entry "
                f"{short(value)}. Make them agree, or take the {RECORD!r} entry out."
            )
    return recorded


def write_config(config: GPTConfig) -> dict[str, Any]:
    """config.json for the class of transformers that computes the same.

    Raises PretrainedError naming every field that has no counterpart in the nearest class.
    """
    model_type, problems = counterpart(config)
    if problems:
        fields = "; ".join(f"{field} {getattr(config, field)!r}" for field in problems)
        name = FAMILIES[model_type].architecture
        raise PretrainedError(
            f"transformers has no class for this model: the nearest, {name}, has no counterpart of {fields}."
        )
    family = FAMILIES[model_type]
    return {"architectures": [family.architecture], "model_type": model_type, **family.write(config)}


def counterpart(config: GPTConfig) -> tuple[str, list[str]]:
    """The nearest model_type, and the fields of this config that it cannot express."""
    problems: list[str] = []

    def need(field: str, holds: bool) -> None:
        if not holds and field not in problems:
            problems.append(field)

    need("norm_placement", config.norm_placement == "pre")
    need("logit_soft_cap", config.logit_soft_cap is None)
    need("positional_embedding_type", config.positional_embedding_type in ("standard", "rotary"))
    bias = "use_bias" if config.attention_bias is None else "attention_bias"
    mlp_bias = "use_bias" if config.mlp_bias is None else "mlp_bias"
    if config.positional_embedding_type != "rotary":
        need("normalization_type", config.normalization_type == "LN")
        need("gated_mlp", not config.gated_mlp)
        need("n_key_value_heads", config.n_key_value_heads == config.n_heads)
        need("d_head", config.d_head * config.n_heads == config.d_model)
        need("qk_norm", not config.qk_norm)
        need("attention_window", config.attention_window is None)
        return "gpt2", problems
    if config.normalization_type == "LN":
        need("qk_norm", not config.qk_norm)
        if not config.gated_mlp:
            return "starcoder2", problems
        need("attention_window", config.attention_window is None)
        need("d_head", config.d_head * config.n_heads == config.d_model)
        need(bias, not config.attn_out_has_bias)
        need(mlp_bias, not config.mlp_has_bias)
        return "stablelm", problems
    if not config.gated_mlp:
        need("gated_mlp", not config.qk_norm)
        need("attention_window", config.attention_window is None)
        return "arcee", problems
    if config.qk_norm:
        need(mlp_bias, not config.mlp_has_bias)
        return "qwen3", problems
    if config.qkv_has_bias and not config.attn_out_has_bias and not config.mlp_has_bias:
        return "qwen2", problems
    if config.attention_window is not None:
        need("attention_window", not config.qkv_has_bias and not config.mlp_has_bias)
        return "mistral", problems
    return "llama", problems


__all__ = ["FAMILIES", "RECORD", "Read", "counterpart", "read_config", "write_config"]
