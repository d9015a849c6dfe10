"""Rotary positions in config.json: rope_parameters (transformers 5), rope_theta and rope_scaling (before)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from model.config import GPTConfig, RotaryScaling
from model.pretrained.sources import PretrainedError


def read_rope(values: Mapping[str, Any]) -> tuple[float, RotaryScaling | None]:
    """(base, scaling) of a config.json. PretrainedError for a kind that has no counterpart."""
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise PretrainedError(f"rope_parameters is {rope!r}, no object.")
    base = rope.get("rope_theta", values.get("rope_theta", 10000.0))
    partial = rope.get("partial_rotary_factor", values.get("partial_rotary_factor", _default_part(values)))
    if partial != 1.0:
        raise PretrainedError(f"partial_rotary_factor is {partial}; here rotary positions turn all dimensions.")
    kind = rope.get("rope_type", rope.get("type", "default"))
    n_ctx = values["max_position_embeddings"]
    # Within max_position_embeddings, all there is here, dynamic scaling does nothing.
    if kind in ("default", "dynamic"):
        return base, None
    if kind == "linear":
        return base, RotaryScaling("linear", float(rope["factor"]))
    if kind == "llama3":
        return base, RotaryScaling(
            "llama3",
            float(rope["factor"]),
            rope.get("original_max_position_embeddings", values.get("original_max_position_embeddings")),
            low_freq_factor=float(rope["low_freq_factor"]),
            high_freq_factor=float(rope["high_freq_factor"]),
        )
    if kind == "yarn":
        return base, _yarn(rope, n_ctx)
    raise PretrainedError(f"rope_type {kind!r} has no counterpart; known are default, linear, dynamic, yarn, llama3.")


def _default_part(values: Mapping[str, Any]) -> float:
    return 0.25 if values.get("model_type") == "stablelm" else 1.0


def _yarn(rope: Mapping[str, Any], n_ctx: int) -> RotaryScaling:
    if not rope.get("truncate", True):
        raise PretrainedError("yarn with truncate false has no counterpart.")
    original = rope.get("original_max_position_embeddings", n_ctx)
    factor = rope.get("factor")
    factor = float(factor) if factor is not None else n_ctx / original
    attention = rope.get("attention_factor")
    mscale, mscale_all = rope.get("mscale"), rope.get("mscale_all_dim")
    if attention is None and mscale and mscale_all and factor > 1:
        attention = (0.1 * mscale * math.log(factor) + 1.0) / (0.1 * mscale_all * math.log(factor) + 1.0)
    return RotaryScaling(
        "yarn",
        factor,
        original,
        float(rope.get("beta_fast") or 32),
        float(rope.get("beta_slow") or 1),
        None if attention is None else float(attention),
    )


def write_rope(config: GPTConfig) -> dict[str, Any]:
    """rope_parameters, and rope_theta and rope_scaling for readers older than transformers 5."""
    scaling, base = config.rotary_scaling, float(config.rotary_base)
    if scaling is not None and scaling.kind == "ntk":  # a larger base, and nothing else
        if config.d_head > 2:
            base *= scaling.factor ** (config.d_head / (config.d_head - 2))
        scaling = None
    rope: dict[str, Any] = {"rope_type": "default" if scaling is None else scaling.kind}
    if scaling is not None:
        rope["factor"] = scaling.factor
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
