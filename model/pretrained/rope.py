"""Rotary positions in config.json: rope_parameters (transformers 5), rope_theta and rope_scaling (before)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from model.checks import is_above_0, is_int, nearest, short
from model.config import GPTConfig, RotaryScaling
from model.pretrained.files import PretrainedError

Values = Mapping[str, Any]

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")
_KEYS = (
    "rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings",
    "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim",
    "truncate", "short_factor", "long_factor", "finetuned",
)  # fmt: skip
_OLD = "rope_scaling"
_NEW = "rope_parameters"


def read_rope(values: Values) -> tuple[float, RotaryScaling | None]:
    """(base, scaling) of a config.json. PretrainedError for what has no counterpart, or is said twice and differs."""
    rope = _table(values)
    base = _said_once(values, rope, "rope_theta", 10000.0)
    if not is_above_0(base):
        raise PretrainedError(f"rope_theta is {short(base)}; it must be a number above 0.")
    partial = _said_once(values, rope, "partial_rotary_factor", _default_part(values))
    if partial != 1.0:
        raise PretrainedError(f"partial_rotary_factor is {short(partial)}; here rotary positions turn all dimensions.")
    kind = rope.get("rope_type", rope.get("type", "default"))
    n_ctx = values["max_position_embeddings"]
    # Within max_position_embeddings, all there is here, dynamic scaling does nothing.
    if kind in ("default", "dynamic"):
        return base, None
    if kind == "linear":
        return base, RotaryScaling("linear", _number(rope, "factor"))
    if kind == "llama3":
        return base, RotaryScaling(
            "llama3",
            _number(rope, "factor"),
            _trained(values, rope, n_ctx),
            low_freq_factor=_number(rope, "low_freq_factor"),
            high_freq_factor=_number(rope, "high_freq_factor"),
        )
    if kind == "yarn":
        return base, _yarn(rope, _trained(values, rope, n_ctx), n_ctx)
    if kind == "longrope":
        return base, _longrope(rope, _trained(values, rope, n_ctx), n_ctx)
    known = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
    raise PretrainedError(f"rope_type {short(kind)} has no counterpart; known are {', '.join(known)}.")


def _table(values: Values) -> Values:
    """The one table of rotary positions, the same for every layer."""
    tables = {name: values[name] for name in (_NEW, _OLD) if values.get(name) not in (None, {})}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise PretrainedError(f"{name} is {short(table)}, no object.")
        tables[name] = table = _flat(name, table, values.get("layer_types"))
        unknown = next((key for key in table if key not in _KEYS), None)
        if unknown is not None:
            raise PretrainedError(f"{name} has {unknown!r}, which is not known here{nearest(unknown, _KEYS)}")
    if len(tables) < 2:
        return next(iter(tables.values()), {})
    new, old = tables[_NEW], tables[_OLD]
    kinds = [table.get("rope_type", table.get("type", "default")) for table in (new, old)]
    differing = [key for key in old if key not in ("type", "rope_type") and key in new and new[key] != old[key]]
    if kinds[0] != kinds[1] or differing:
        key = differing[0] if differing else "rope_type"
        raise PretrainedError(f"{_NEW} and {_OLD} disagree about {key}; take one of them out.")
    return {**old, **new}


def _flat(name: str, table: Values, layer_types: Any) -> Values:
    """A table for each type of layers as one, where the layers that there are have the same."""
    nested = {key: value for key, value in table.items() if key in LAYER_TYPES or isinstance(value, Mapping)}
    if not nested:
        return table
    beside = next((key for key in table if key not in nested), None)
    if beside is not None:
        raise PretrainedError(f"{name} has {beside!r} beside tables for types of layers; give each its own.")
    used = sorted(set(map(str, layer_types))) if isinstance(layer_types, list) and layer_types else sorted(nested)
    for kind in used:
        if not isinstance(nested.get(kind), Mapping):
            raise PretrainedError(f"{name} has no table for {kind!r}, which layers of the model are.")
        if nested[kind] != nested[used[0]]:
            raise PretrainedError(
                f"{name} differs between {used[0]!r} and {kind!r}; here all layers have the same rotary positions."
            )
    return nested[used[0]]


def _said_once(values: Values, rope: Values, name: str, default: float) -> Any:
    """A number that may stand in the table or beside it, and in both only if they agree."""
    inside, outside = rope.get(name), values.get(name)
    if inside is not None and outside is not None and inside != outside:
        raise PretrainedError(f"{name} is {short(inside)} in {_NEW} and {short(outside)} beside it; take one out.")
    given = inside if inside is not None else outside
    return default if given is None else given


def _number(rope: Values, name: str) -> float:
    value = rope[name]
    if isinstance(value, bool) or not is_above_0(value):
        raise PretrainedError(f"{_NEW}.{name} is {short(value)}; it must be a number above 0.")
    return float(value)


def _optional(rope: Values, name: str, default: float | None = None) -> Any:
    """As transformers reads it: null and 0 are as if the key were not there."""
    return _number(rope, name) if rope.get(name) else default


def _trained(values: Values, rope: Values, n_ctx: Any) -> int:
    length = _said_once(values, rope, "original_max_position_embeddings", n_ctx)
    if not is_int(length) or length < 1:
        raise PretrainedError(f"original_max_position_embeddings is {short(length)}; it must be a whole number from 1.")
    return length


def _default_part(values: Values) -> float:
    return 0.25 if values.get("model_type") == "stablelm" else 1.0


def _factor(rope: Values, original: int, n_ctx: Any) -> float:
    return _number(rope, "factor") if rope.get("factor") is not None else n_ctx / original


def _yarn(rope: Values, original: int, n_ctx: Any) -> RotaryScaling:
    if not rope.get("truncate", True):
        raise PretrainedError("yarn with truncate false has no counterpart.")
    factor = _factor(rope, original, n_ctx)
    attention = None if rope.get("attention_factor") is None else _number(rope, "attention_factor")
    mscale, mscale_all = _optional(rope, "mscale"), _optional(rope, "mscale_all_dim")
    if attention is None and mscale and mscale_all and factor > 1:
        attention = (0.1 * mscale * math.log(factor) + 1.0) / (0.1 * mscale_all * math.log(factor) + 1.0)
    fast, slow = _optional(rope, "beta_fast", 32.0), _optional(rope, "beta_slow", 1.0)
    return RotaryScaling("yarn", factor, original, fast, slow, attention)


def _longrope(rope: Values, original: int, n_ctx: Any) -> RotaryScaling:
    """LongRoPE, where it does not change with the length of the text: one list, or a context as long as trained."""
    short_list, long_list = rope["short_factor"], rope["long_factor"]
    if short_list != long_list and n_ctx > original:
        raise PretrainedError(
            "longrope turns otherwise in texts longer than original_max_position_embeddings, which has no counterpart; "
            f"max_position_embeddings {original} would keep to shorter ones."
        )
    attention = None if rope.get("attention_factor") is None else _number(rope, "attention_factor")
    factor = _factor(rope, original, n_ctx)
    if attention is None and factor > 1:
        attention = math.sqrt(1 + math.log(factor) / math.log(original))
    if not isinstance(short_list, list):
        raise PretrainedError(f"short_factor is {short(short_list)}; it must be a list of numbers.")
    return RotaryScaling("factors", 1.0, attention_factor=attention, factors=tuple(short_list))


def write_rope(config: GPTConfig) -> dict[str, Any]:
    """rope_parameters, and rope_theta and rope_scaling for readers older than transformers 5."""
    scaling, base = config.rotary_scaling, float(config.rotary_base)
    if scaling is not None and scaling.kind == "ntk":  # a larger base, and nothing else
        if config.d_head > 2:
            base *= scaling.factor ** (config.d_head / (config.d_head - 2))
        scaling = None
    rope: dict[str, Any] = {"rope_type": "default"}
    if scaling is not None and scaling.kind == "factors":
        rope = {
            "rope_type": "longrope",
            "factor": scaling.factor,
            "short_factor": list(scaling.factors or ()),
            "long_factor": list(scaling.factors or ()),
            "original_max_position_embeddings": config.n_ctx,
            "attention_factor": scaling.attention_factor or 1.0,
        }
    elif scaling is not None:
        rope = {"rope_type": scaling.kind, "factor": scaling.factor}
        if scaling.kind in ("yarn", "llama3"):
            rope["original_max_position_embeddings"] = scaling.original_n_ctx
        if scaling.kind == "llama3":
            rope |= {"low_freq_factor": scaling.low_freq_factor, "high_freq_factor": scaling.high_freq_factor}
        if scaling.kind == "yarn":
            rope |= {"beta_fast": scaling.beta_fast, "beta_slow": scaling.beta_slow}
            if scaling.attention_factor is not None:
                rope["attention_factor"] = scaling.attention_factor
    written: dict[str, Any] = {"rope_parameters": {**rope, "rope_theta": base}, "rope_theta": base}
    if scaling is not None:
        written["rope_scaling"] = rope
    return written
