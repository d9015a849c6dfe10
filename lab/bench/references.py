"""The other sides of the comparisons, each over the very weights of one of our models."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from model.gpt import GPT


def plain_network(model: GPT) -> Callable[[torch.Tensor], torch.Tensor]:
    """A GPT-2 shaped model as one function over the same tensors: fused kernels, no hook points."""
    import torch.nn.functional as F

    config = model.config
    held: dict[str, Any] = {
        "normalization_type": "LN",
        "norm_placement": "pre",
        "positional_embedding_type": "standard",
        "tie_word_embeddings": True,
        "gated_mlp": False,
        "qk_norm": False,
        "n_key_value_heads": config.n_heads,
        "attention_window": None,
        "logit_soft_cap": None,
    }
    for field, value in held.items():
        if getattr(config, field) != value:
            raise ValueError(f"{field} is {getattr(config, field)!r}; this reference holds {value!r} alone.")
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    heads, width, eps = config.n_heads, config.d_model, config.eps
    approximate = "tanh" if config.act_fn == "gelu_new" else "none"

    def get(name: str) -> torch.Tensor | None:
        return weights.get(name)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        batch, length = tokens.shape
        x = weights["embed.weight"][tokens] + weights["pos_embed.weight"][:length]  # [batch, pos, d_model]
        for layer in range(config.n_layers):
            at = f"blocks.{layer}."
            normed = F.layer_norm(x, (width,), get(at + "ln1.w"), get(at + "ln1.b"), eps)
            qkv = F.linear(normed, weights[at + "attn.w_qkv.weight"], get(at + "attn.w_qkv.bias"))
            q, k, v = qkv.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # each [batch, head, pos, d_head]
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, -1)
            x = x + F.linear(z, weights[at + "attn.w_o.weight"], get(at + "attn.w_o.bias"))
            normed = F.layer_norm(x, (width,), get(at + "ln2.w"), get(at + "ln2.b"), eps)
            inner = F.linear(normed, weights[at + "mlp.w_in.weight"], get(at + "mlp.w_in.bias"))
            inner = F.gelu(inner, approximate=approximate)
            x = x + F.linear(inner, weights[at + "mlp.w_out.weight"], get(at + "mlp.w_out.bias"))
        x = F.layer_norm(x, (width,), get("ln_final.w"), get("ln_final.b"), eps)
        return F.linear(x, weights["embed.weight"])

    return forward


def to_transformers(model: GPT) -> Any:
    """A GPT-2 shaped model's weights in a GPT2LMHeadModel (whose Conv1D keeps matrices [in, out])."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = model.config
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.d_vocab,
            n_positions=config.n_ctx,
            n_embd=config.d_model,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            layer_norm_epsilon=config.eps,
            activation_function=config.act_fn,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    ours = model.state_dict()
    renamed = {
        "transformer.wte.weight": ours["embed.weight"],
        "transformer.wpe.weight": ours["pos_embed.weight"],
        "lm_head.weight": ours["embed.weight"],
        "transformer.ln_f.weight": ours["ln_final.w"],
        "transformer.ln_f.bias": ours["ln_final.b"],
    }
    for layer in range(config.n_layers):
        for norm, name in (("ln1", "ln_1"), ("ln2", "ln_2")):
            renamed[f"transformer.h.{layer}.{name}.weight"] = ours[f"blocks.{layer}.{norm}.w"]
            renamed[f"transformer.h.{layer}.{name}.bias"] = ours[f"blocks.{layer}.{norm}.b"]
        for linear, name in (
            ("attn.w_qkv", "attn.c_attn"),
            ("attn.w_o", "attn.c_proj"),
            ("mlp.w_in", "mlp.c_fc"),
            ("mlp.w_out", "mlp.c_proj"),
        ):
            renamed[f"transformer.h.{layer}.{name}.weight"] = ours[f"blocks.{layer}.{linear}.weight"].T
            renamed[f"transformer.h.{layer}.{name}.bias"] = ours[f"blocks.{layer}.{linear}.bias"]
    with torch.no_grad():
        theirs.load_state_dict(renamed)
    return theirs.eval()


def bridge(model: GPT) -> Any:
    """TransformerLens' bridge over the same weights, without a network."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformer_lens.model_bridge import TransformerBridge

    theirs = to_transformers(model)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return TransformerBridge.boot_transformers(folder, hf_model=theirs, device="cpu")
