"""Each model_type of transformers that is read here: how its config.json reads as a GPTConfig's fields, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.checks import is_int, nearest, short
from model.config import MOST_LAYERS, GPTConfig
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import GPT2, LLAMA, Layout
from model.pretrained.rope import read_rope, write_rope

ACTIVATIONS = {
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
    "linear": "identity",
}
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """One model_type: its class in transformers, its tensors' names, how its config reads here and is written."""

    architecture: str
    layout: Layout
    read: Callable[[Values], dict[str, Any]]
    write: Callable[[GPTConfig], dict[str, Any]]
    required: Mapping[str, tuple[Any, ...]]
    """Fields whose other values mean another computation, with the values that are ours (None: absent)."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names under which transformers takes a field."""


# --- GPT-2 -----------------------------------------------------------------------------------------------------


def _read_gpt2(values: Values) -> dict[str, Any]:
    return dict(
        d_vocab=values["vocab_size"],
        n_ctx=values.get("n_positions", values.get("n_ctx", 1024)),
        d_model=values["n_embd"],
        n_layers=values["n_layer"],
        n_heads=values["n_head"],
        d_mlp=values.get("n_inner"),
        act_fn=_activation(values.get("activation_function", "gelu_new")),
        eps=values.get("layer_norm_epsilon", 1e-5),
        tie_word_embeddings=values.get("tie_word_embeddings", True),
        embed_dropout=values.get("embd_pdrop", 0.1),
        attn_dropout=values.get("attn_pdrop", 0.1),
        resid_dropout=values.get("resid_pdrop", 0.1),
        init_std=values.get("initializer_range", 0.02),
    )


def _write_gpt2(config: GPTConfig) -> dict[str, Any]:
    return dict(
        vocab_size=config.d_vocab,
        n_positions=config.n_ctx,
        n_embd=config.d_model,
        n_layer=config.n_layers,
        n_head=config.n_heads,
        n_inner=config.d_mlp,
        activation_function="linear" if config.act_fn == "identity" else config.act_fn,
        layer_norm_epsilon=config.eps,
        tie_word_embeddings=config.tie_word_embeddings,
        embd_pdrop=config.embed_dropout,
        attn_pdrop=config.attn_dropout,
        resid_pdrop=config.resid_dropout,
        initializer_range=config.init_std,
    )


# --- Llama and the models made like it -------------------------------------------------------------------------


def _read_common(values: Values, eps: str, default_heads: int | None = None) -> dict[str, Any]:
    base, scaling = read_rope(values)
    groups = values.get("num_key_value_heads", default_heads)
    return dict(
        d_vocab=values["vocab_size"],
        n_ctx=values["max_position_embeddings"],
        d_model=values["hidden_size"],
        n_layers=values["num_hidden_layers"],
        n_heads=values["num_attention_heads"],
        d_head=values.get("head_dim"),
        n_key_value_heads=groups,
        d_mlp=values["intermediate_size"],
        act_fn=_activation(values.get("hidden_act", "silu")),
        gated_mlp=True,
        normalization_type="RMS",
        eps=values.get(eps, 1e-6),
        positional_embedding_type="rotary",
        rotary_base=base,
        rotary_scaling=scaling,
        tie_word_embeddings=values.get("tie_word_embeddings", False),
        attn_dropout=values.get("attention_dropout", 0.0) or 0.0,
        init_std=values.get("initializer_range", 0.02) or 0.02,
        use_bias=False,
    )


def _write_common(config: GPTConfig, eps: str) -> dict[str, Any]:
    return dict(
        vocab_size=config.d_vocab,
        max_position_embeddings=config.n_ctx,
        hidden_size=config.d_model,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        head_dim=config.d_head,
        num_key_value_heads=config.n_key_value_heads,
        intermediate_size=config.d_mlp,
        hidden_act={"gelu_new": "gelu_pytorch_tanh", "identity": "linear"}.get(config.act_fn, config.act_fn),
        tie_word_embeddings=config.tie_word_embeddings,
        attention_dropout=config.attn_dropout,
        initializer_range=config.init_std,
        **{eps: config.eps},
        **write_rope(config),
    )


def _biases(values: Values) -> dict[str, Any]:
    attention, mlp = values.get("attention_bias", False), values.get("mlp_bias", False)
    return dict(attention_bias=True if attention else None, mlp_bias=True if mlp else None)


def _read_llama(values: Values) -> dict[str, Any]:
    _require_layers(values, None)
    return _read_common(values, "rms_norm_eps") | _biases(values)


def _write_llama(config: GPTConfig) -> dict[str, Any]:
    biases = dict(attention_bias=config.qkv_has_bias, mlp_bias=config.mlp_has_bias)
    return _write_common(config, "rms_norm_eps") | biases


def _read_arcee(values: Values) -> dict[str, Any]:
    read = _read_llama({"hidden_act": "relu2", "rms_norm_eps": 1e-5, **values})
    return read | dict(gated_mlp=False)


def _read_mistral(values: Values) -> dict[str, Any]:
    window = values.get("sliding_window", 4096)
    _require_layers(values, window)
    return _read_common(values, "rms_norm_eps", 8) | dict(attention_window=window)


def _write_mistral(config: GPTConfig) -> dict[str, Any]:
    return _write_common(config, "rms_norm_eps") | dict(sliding_window=config.attention_window)


def _read_qwen2(values: Values) -> dict[str, Any]:
    read = _read_common(values, "rms_norm_eps", 32)
    return read | dict(attention_bias="qkv", attention_window=_qwen_window(values))


def _write_qwen2(config: GPTConfig) -> dict[str, Any]:
    return _write_common(config, "rms_norm_eps") | _write_qwen_window(config)


def _read_qwen3(values: Values) -> dict[str, Any]:
    read = _read_common({"head_dim": 128, **values}, "rms_norm_eps", 32)
    bias = True if values.get("attention_bias", False) else None
    return read | dict(qk_norm=True, attention_bias=bias, attention_window=_qwen_window(values))


def _write_qwen3(config: GPTConfig) -> dict[str, Any]:
    bias = dict(attention_bias=config.qkv_has_bias)
    return _write_common(config, "rms_norm_eps") | bias | _write_qwen_window(config)


def _qwen_window(values: Values) -> int | None:
    """Qwen's window, where all layers have it or none."""
    if not values.get("use_sliding_window", False):
        _require_layers(values, None)
        return None
    layers, first = values["num_hidden_layers"], values.get("max_window_layers", 28)
    if not is_int(layers) or not 0 < layers <= MOST_LAYERS:
        return None  # the config says what is wrong with it
    kinds = values.get("layer_types")
    windowed = [k == "sliding_attention" for k in kinds] if kinds else [i >= first for i in range(layers)]
    if all(windowed):
        return values.get("sliding_window", 4096)
    if not any(windowed):
        return None
    raise PretrainedError("some layers have a sliding window and others none; here a window is every layer's.")


def _require_layers(values: Values, window: int | None) -> None:
    """Refuse layer_types that say something else of the window than the fields which the architecture reads."""
    kinds = values.get("layer_types")
    expected = "full_attention" if window is None else "sliding_attention"
    if kinds is not None and any(kind != expected for kind in kinds):
        raise PretrainedError(
            f"layer_types has others than {expected!r}, but the window of all layers is {short(window)}."
        )


def _write_qwen_window(config: GPTConfig) -> dict[str, Any]:
    if config.attention_window is None:
        return dict(use_sliding_window=False, layer_types=["full_attention"] * config.n_layers)
    return dict(
        use_sliding_window=True,
        sliding_window=config.attention_window,
        max_window_layers=0,
        layer_types=["sliding_attention"] * config.n_layers,
    )


def _read_starcoder2(values: Values) -> dict[str, Any]:
    read = _read_common({"hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, **values}, "norm_epsilon", 2)
    bias = values.get("use_bias", True)
    _require_layers(values, values.get("sliding_window"))
    return read | dict(
        gated_mlp=False,
        normalization_type="LN",
        use_bias=True,
        attention_bias=None if bias else False,
        mlp_bias=None if bias else False,
        attention_window=values.get("sliding_window"),
        tie_word_embeddings=values.get("tie_word_embeddings", True),
        embed_dropout=values.get("embedding_dropout", 0.0),
        resid_dropout=values.get("residual_dropout", 0.0),
    )


def _write_starcoder2(config: GPTConfig) -> dict[str, Any]:
    return _write_common(config, "norm_epsilon") | dict(
        use_bias=config.qkv_has_bias or config.attn_out_has_bias or config.mlp_has_bias,
        sliding_window=config.attention_window,
        embedding_dropout=config.embed_dropout,
        residual_dropout=config.resid_dropout,
    )


def _read_stablelm(values: Values) -> dict[str, Any]:
    read = _read_common({"layer_norm_eps": 1e-5, **values}, "layer_norm_eps", 32)
    qkv = "qkv" if values.get("use_qkv_bias", False) else False
    _require_layers(values, None)
    return read | dict(normalization_type="LN", use_bias=True, attention_bias=qkv, mlp_bias=False)


def _write_stablelm(config: GPTConfig) -> dict[str, Any]:
    written = _write_common(config, "layer_norm_eps")
    written.pop("head_dim")  # always hidden_size / num_attention_heads there
    written["rope_parameters"] = {**written["rope_parameters"], "partial_rotary_factor": 1.0}
    return written | dict(use_qkv_bias=config.qkv_has_bias, qk_layernorm=False, use_parallel_residual=False)


def _activation(name: Any) -> str:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise PretrainedError(f"the activation {short(name)} is not here{nearest(str(name), ACTIVATIONS)}")
    return ACTIVATIONS[name]


FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        "GPT2LMHeadModel",
        GPT2,
        _read_gpt2,
        _write_gpt2,
        {"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,)},
        {
            "hidden_size": "n_embd",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "max_position_embeddings": "n_positions",
        },
    ),
    "llama": Family("LlamaForCausalLM", LLAMA, _read_llama, _write_llama, {}),
    "mistral": Family("MistralForCausalLM", LLAMA, _read_mistral, _write_mistral, {}),
    "qwen2": Family("Qwen2ForCausalLM", LLAMA, _read_qwen2, _write_qwen2, {}),
    "qwen3": Family("Qwen3ForCausalLM", LLAMA, _read_qwen3, _write_qwen3, {}),
    "arcee": Family("ArceeForCausalLM", LLAMA, _read_arcee, _write_llama, {}),
    "starcoder2": Family("Starcoder2ForCausalLM", LLAMA, _read_starcoder2, _write_starcoder2, {}),
    "stablelm": Family(
        "StableLmForCausalLM",
        LLAMA,
        _read_stablelm,
        _write_stablelm,
        {"qk_layernorm": (False,), "use_parallel_residual": (False,)},
    ),
}
