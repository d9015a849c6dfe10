"""Small models that generate, two tokenizers, and variants beyond the common ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from model import GPT
from model.config import RotaryScaling
from tests.model.variants import tiny

V, CTX = 13, 10


class Letters:
    """A tokenizer of small letters; may know a beginning of sequence."""

    def __init__(self, vocab_size: int = V, bos_id: int | None = None):
        self.vocab_size, self.bos_id = vocab_size, bos_id

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(ord("a") + id) for id in ids)


class Utf8:
    """A tokenizer of bytes."""

    vocab_size, bos_id = 256, None

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


def make(**changes: Any) -> GPT:
    """A small model whose random weights are large enough for its choices to differ."""
    return tiny(**({"d_vocab": V, "n_ctx": CTX} | changes))


def tokens_of(*ids: int) -> Tensor:
    return torch.tensor([ids])


FURTHER = [
    dict(n_key_value_heads=2),
    dict(n_key_value_heads=1, positional_embedding_type="alibi"),
    dict(n_key_value_heads=2, positional_embedding_type="rotary", qk_norm=True),
    dict(qk_norm=True, d_head=6),
    dict(attention_window=3),
    dict(attention_window=3, positional_embedding_type="alibi", n_key_value_heads=2),
    dict(attention_window=1, positional_embedding_type="rotary"),
    dict(logit_soft_cap=5.0),
    dict(use_bias=False, act_fn="relu2"),
    dict(use_bias=False, attention_bias="qkv"),
    dict(positional_embedding_type="rotary", rotary_scaling=RotaryScaling("linear", 2.0)),
    dict(positional_embedding_type="rotary", rotary_scaling=RotaryScaling("yarn", 2.0, original_n_ctx=5)),
    dict(n_layers=1, n_heads=1),
    dict(d_model=3, n_heads=3, d_vocab=2),
    dict(n_ctx=1),
    dict(n_ctx=2),
]


def state_of(model: GPT) -> list[Any]:
    """Modes, hooks and gradients, module by module."""
    modes = [(name, module.training) for name, module in model.named_modules()]
    hooks = [
        (name, list(module._forward_hooks), list(module._backward_hooks)) for name, module in model.named_modules()
    ]
    gradients = [(p.requires_grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
    return [modes, hooks, [(r, None if g is None else g.tolist()) for r, g in gradients]]
