"""The keys of a GGUF file as a GPTConfig: each key that changes the numbers is applied, or refused by its name.

The meaning of a key is what llama.cpp computes with it (llama-model.cpp, load_hparams and build_graph).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from model.config import ConfigError, GPTConfig, RotaryScaling
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import GPT2, LLAMA, Layout, Slot

ROPE_FACTORS = "rope_freqs.weight"
HEAD = "output.weight"

_LLAMA_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_STARCODER_PARTS = {**_LLAMA_PARTS, "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
_GPT2_PARTS = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_LLAMA_WHOLE = {"token_embd": "embed_tokens", "output_norm": "norm"}
_GPT2_WHOLE = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}


@dataclass(frozen=True)
class Architecture:
    """One general.architecture: names of its tensors, fields of its config, and how it keeps queries and keys.

    permuted: whether the rows of queries and keys stand in pairs (2i, 2i + 1), as llama.cpp turns them for Llama.
    needs: what the architecture always has: "qkv" biases, an "output" of its own.
    """

    layout: Layout
    whole: Mapping[str, str]
    parts: Mapping[str, str]
    fields: Mapping[str, Any]
    permuted: bool = False
    needs: tuple[str, ...] = ()

    def gguf_layout(self) -> Layout:
        """The layout under GGUF's names, in which errors are told too."""
        theirs = {ours: name for name, ours in self.whole.items()}
        parts = {ours: name for name, ours in self.parts.items()}

        def rename(name: str) -> str:
            module, kind = name.rsplit(".", 1)
            if module in theirs:
                return f"{theirs[module]}.{kind}"
            _, layer, part = module.split(".", 2)
            return f"blk.{layer}.{parts[part]}.{kind}"

        def build(config: GPTConfig) -> Iterator[tuple[str, Slot]]:
            for name, slot in self.layout.build(config):
                yield rename(name), slot

        return Layout(build, "", head=HEAD)


_RMS = dict(normalization_type="RMS", positional_embedding_type="rotary", use_bias=False)
_LN = dict(normalization_type="LN", positional_embedding_type="rotary", use_bias=True)
_GATED = dict(act_fn="silu", gated_mlp=True)
ARCHITECTURES = {
    "gpt2": Architecture(GPT2, _GPT2_WHOLE, _GPT2_PARTS, dict(normalization_type="LN", act_fn="gelu_new")),
    "llama": Architecture(LLAMA, _LLAMA_WHOLE, _LLAMA_PARTS, _RMS | _GATED, permuted=True),
    "qwen2": Architecture(LLAMA, _LLAMA_WHOLE, _LLAMA_PARTS, _RMS | _GATED, needs=("qkv",)),
    "qwen3": Architecture(LLAMA, _LLAMA_WHOLE, _LLAMA_PARTS, _RMS | _GATED | dict(qk_norm=True)),
    "stablelm": Architecture(LLAMA, _LLAMA_WHOLE, _LLAMA_PARTS, _LN | _GATED, needs=("output",)),
    "starcoder2": Architecture(LLAMA, _LLAMA_WHOLE, _STARCODER_PARTS, _LN | dict(act_fn="gelu_new")),
}

# Keys that are read below, and those whose value changes nothing here.
_NEUTRAL: dict[str, Callable[[Any], bool]] = {
    "tensor_data_layout": lambda v: v in ("reference", "Meta AI original pth"),
    "rope.scaling.finetuned": lambda v: True,  # a note for people
    "pooling_type": lambda v: True,  # of embeddings, which are not asked for
    "attention.causal": lambda v: v is True,
    "use_parallel_residual": lambda v: v is False,
    "logit_scale": lambda v: v == 1,
    "residual_scale": lambda v: v == 1,
    "embedding_scale": lambda v: v == 1,
    "attention.output_scale": lambda v: v == 1,
    "attention.clamp_kqv": lambda v: v == 0,
    "attention.max_alibi_bias": lambda v: v == 0,
    "attn_logit_softcapping": lambda v: v == 0,
    "final_logit_softcapping": lambda v: v == 0,
    "leading_dense_block_count": lambda v: v == 0,
    "nextn_predict_layers": lambda v: v == 0,
    "rope.scaling.attn_factor": lambda v: v == 1,
    "rope.scaling.yarn_attn_factor": lambda v: v == 1,
    "rope.scaling.yarn_ext_factor": lambda v: v == 1,
    "rope.scaling.yarn_log_multiplier": lambda v: v == 0,
}
# Keys without the architecture's name that other architectures compute with.
_FOREIGN = ("adapter.", "clip.", "diffusion.", "xielu.")


class _Keys:
    """The keys under the architecture's name, each taken once; what is left at the end is looked at by itself."""

    def __init__(self, keys: Mapping[str, Any], architecture: str, origin: str):
        prefix = f"{architecture}."
        self.left = {name.removeprefix(prefix): value for name, value in keys.items() if name.startswith(prefix)}
        self.prefix, self.origin = prefix, origin

    def refuse(self, name: str, value: Any, why: str) -> PretrainedError:
        return PretrainedError(f"{self.origin}: the key '{self.prefix}{name}' is {value!r}: {why}.")

    def take(self, name: str, kinds: type | tuple[type, ...], default: Any = None, needed: bool = False) -> Any:
        """The value of a key, of one of these types; of a list with a value a layer, the one that all layers share."""
        if name not in self.left:
            if needed:
                raise PretrainedError(f"{self.origin} lacks the key '{self.prefix}{name}'.")
            return default
        value = self.left.pop(name)
        if isinstance(value, list):
            if not value or any(v != value[0] for v in value):
                raise self.refuse(name, value, "layers of different shapes are not here")
            value = value[0]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise self.refuse(name, value, "a value of this kind is not expected there")
        return value

    def whole(self, name: str, default: int | None = None, needed: bool = False) -> Any:
        return self.take(name, int, default, needed)

    def number(self, name: str, default: float | None = None, needed: bool = False) -> Any:
        return self.take(name, (int, float), default, needed)


def read_keys(
    keys: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], factors: tuple[float, ...] | None, origin: str
) -> tuple[GPTConfig, Architecture]:
    """The config that the keys and the names of the tensors describe, and the architecture.

    shapes: of the tensors, as torch has them. factors: the numbers of rope_freqs.weight, where the file has them.
    Raises PretrainedError naming the first key that is missing, damaged, or computes something that is not here.
    """
    name = keys.get("general.architecture")
    if name not in ARCHITECTURES:
        raise PretrainedError(
            f"{origin}: general.architecture is {name!r}; what can be read are {', '.join(ARCHITECTURES)}."
        )
    if keys.get("general.type", "model") != "model":
        raise PretrainedError(f"{origin}: general.type is {keys['general.type']!r}: it holds no whole model.")
    for key, value in keys.items():
        if key.startswith(_FOREIGN):
            raise PretrainedError(f"{origin}: the key {key!r} is {value!r}: it computes something that is not here.")
    architecture = ARCHITECTURES[name]
    if ROPE_FACTORS in shapes and name != "llama":
        raise PretrainedError(f"{origin}: {ROPE_FACTORS} has no meaning in the architecture {name!r}.")
    found = _Keys(keys, name, origin)
    try:
        config = GPTConfig(**_fields(found, shapes, architecture, factors))
    except (ConfigError, TypeError) as error:
        raise PretrainedError(f"{origin} describes no model that can be built: {error}") from None
    _require_neutral(found, config)
    return config, architecture


def _fields(
    found: _Keys, shapes: Mapping[str, tuple[int, ...]], architecture: Architecture, factors: tuple[float, ...] | None
) -> dict[str, Any]:
    fields = dict(architecture.fields)
    d_model, n_heads = (found.whole(k, needed=True) for k in ("embedding_length", "attention.head_count"))
    n_ctx = found.whole("context_length", needed=True)
    embedding = shapes.get("token_embd.weight")
    if embedding is None or len(embedding) != 2:
        raise PretrainedError(f"{found.origin}: tensor 'token_embd.weight' is missing or no matrix.")
    fields |= dict(
        d_vocab=found.whole("vocab_size", embedding[0]),
        n_ctx=n_ctx,
        d_model=d_model,
        n_layers=found.whole("block_count", needed=True),
        n_heads=n_heads,
        n_key_value_heads=found.whole("attention.head_count_kv", n_heads),
        d_head=found.whole("attention.key_length"),
        d_mlp=found.whole("feed_forward_length", needed=True),
        tie_word_embeddings=HEAD not in shapes and "output" not in architecture.needs,
    )
    norm = "rms_epsilon" if fields["normalization_type"] == "RMS" else "epsilon"
    fields["eps"] = found.number(f"attention.layer_norm_{norm}", needed=True)
    if fields.get("positional_embedding_type") == "rotary":
        fields["rotary_base"] = found.number("rope.freq_base", 10000.0)
        fields["rotary_scaling"] = _scaling(found, n_ctx, factors)
        fields |= _biases(shapes, architecture)
    return fields


def _biases(names: Collection[str], architecture: Architecture) -> dict[str, Any]:
    """Which sublayers have biases: those of whose biases the file has any, or which always have."""

    def any_of(parts: str) -> bool:
        return any(re.fullmatch(rf"blk\.\d+\.({parts})\.bias", name) for name in names)

    qkv = "qkv" if any_of("attn_q|attn_k|attn_v") or "qkv" in architecture.needs else False
    return dict(
        attention_bias=True if any_of("attn_output") else qkv,
        mlp_bias=any_of("ffn_gate|ffn_up|ffn_down"),
    )


def _scaling(found: _Keys, n_ctx: int, factors: tuple[float, ...] | None) -> RotaryScaling | None:
    """As llama.cpp: linear where only a factor is given, none where it is 0 or 1."""
    kind = found.take("rope.scaling.type", str, "linear")
    factor = found.number("rope.scaling.factor", None)
    old = found.number("rope.scale_linear", 1.0)  # the name before rope.scaling.factor
    factor = float(old if factor is None else factor) or 1.0
    trained = found.whole("rope.scaling.original_context_length", n_ctx)
    fast, slow = found.number("rope.scaling.yarn_beta_fast", 32.0), found.number("rope.scaling.yarn_beta_slow", 1.0)
    if kind not in ("none", "linear", "yarn"):
        raise found.refuse("rope.scaling.type", kind, "what is here are none, linear and yarn")
    scaled = kind != "none" and factor != 1.0
    if factors is not None and any(f != 1.0 for f in factors):
        if scaled:
            raise found.refuse("rope.scaling.factor", factor, f"with {ROPE_FACTORS} beside it, it is not here")
        return RotaryScaling("factors", 1.0, factors=factors)
    if not scaled:
        return None
    if kind == "yarn" and trained <= 2 * math.pi * slow:
        raise found.refuse("rope.scaling.original_context_length", trained, "yarn needs more positions than one turn")
    scaling = RotaryScaling(kind, factor)
    return scaling if kind == "linear" else replace(scaling, original_n_ctx=trained, beta_fast=fast, beta_slow=slow)


def _require_neutral(found: _Keys, config: GPTConfig) -> None:
    """Every key that was not taken leaves the numbers as they are, or is refused by its name."""
    neutral = _NEUTRAL | {
        "embedding_length_out": lambda v: v == config.d_model,
        "attention.value_length": lambda v: v == config.d_head,
        "attention.scale": lambda v: v == 0 or math.isclose(v, config.d_head**-0.5, rel_tol=1e-6),
        "attention.sliding_window": lambda v: v == 0 or v >= config.n_ctx,
    }
    if config.positional_embedding_type == "rotary":
        neutral["rope.dimension_count"] = lambda v: v == config.d_head
    for name, value in found.left.items():
        if name.startswith("expert_") and value in (0, False):
            continue
        fine = neutral.get(name)
        if fine is None:
            raise found.refuse(name, value, "it is not known to leave the numbers as they are")
        values = value if isinstance(value, list) else [value]
        try:
            holds = all(map(fine, values))
        except TypeError:
            holds = False
        if not holds:
            raise found.refuse(name, value, "it computes something that is not here")
