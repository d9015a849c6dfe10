"""transformers' models to compare with: small, random, of every architecture that is read and written."""

from __future__ import annotations

from typing import Any

import pytest
import torch

LLAMA = dict(
    vocab_size=23, max_position_embeddings=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, intermediate_size=40, bos_token_id=None, eos_token_id=None, pad_token_id=None,
)  # fmt: skip
GPT2 = dict(vocab_size=23, n_positions=32, n_embd=16, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None)
ROPES = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 16},
    "yarn-scaled": {
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 16,
        "attention_factor": 1.3,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "original_max_position_embeddings": 16,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}
WINDOWS = dict(use_sliding_window=True, sliding_window=5, max_window_layers=0)

# name -> (class stem, config)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2),
    "gpt2-untied": ("GPT2", {**GPT2, "tie_word_embeddings": False, "n_inner": 24, "activation_function": "relu"}),
    "llama": ("Llama", LLAMA),
    "llama-tied": ("Llama", {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama-biases": ("Llama", {**LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 6}),
    **{
        f"llama-{name}": ("Llama", {**LLAMA, "rope_parameters": {**rope, "rope_theta": 500.0}})
        for name, rope in ROPES.items()
    },
    "mistral": ("Mistral", {**LLAMA, "sliding_window": 5}),
    "qwen2": ("Qwen2", {**LLAMA, "tie_word_embeddings": True}),
    "qwen2-window": ("Qwen2", {**LLAMA, **WINDOWS}),
    "qwen3": ("Qwen3", {**LLAMA, "head_dim": 8}),
    "qwen3-tied": ("Qwen3", {**LLAMA, "head_dim": 4, "tie_word_embeddings": True, "attention_bias": True}),
    "arcee": ("Arcee", {**LLAMA, "mlp_bias": True}),
    "starcoder2": ("Starcoder2", {**LLAMA, "sliding_window": 5}),
    "starcoder2-plain": ("Starcoder2", {**LLAMA, "use_bias": False, "tie_word_embeddings": False}),
    "stablelm": (
        "StableLm",
        {**LLAMA, "use_qkv_bias": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                             "partial_rotary_factor": 1.0}},
    ),
}  # fmt: skip


def reference(name: str, seed: int = 0) -> Any:
    """A random model of transformers in eager mode, whose biases and norms matter too."""
    import transformers

    stem, values = MODELS[name]
    config_class = getattr(transformers, f"{stem}Config")
    model_class = getattr(transformers, f"{stem}LMHeadModel" if stem == "GPT2" else f"{stem}ForCausalLM")
    model = model_class(config_class(**values, attn_implementation="eager")).eval()
    stir(model, seed)
    return model


@torch.no_grad()
def stir(model: torch.nn.Module, seed: int = 0) -> None:
    """Weights large enough that every part of a small model matters."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            parameter += 0.2 * noise
        else:
            parameter.copy_(0.3 * noise)


def keep_fp64(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers' Llamas narrow their norms and their softmax to fp32 whatever the model's precision: lift that."""
    from transformers.models.arcee.modeling_arcee import ArceeRMSNorm
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.mistral.modeling_mistral import MistralRMSNorm
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    def forward(self, x):
        return self.weight * x * (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()

    for norm in (ArceeRMSNorm, LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        monkeypatch.setattr(norm, "forward", forward)
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim))
