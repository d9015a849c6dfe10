"""A transformer block, with its norms before, after, or on both sides of each sublayer.

x is the residual stream:

    pre       x = x + attn(ln1(x))             x = x + mlp(ln2(x))
    post      x = ln1(x + attn(x))             x = ln2(x + mlp(x))
    sandwich  x = x + ln1_post(attn(ln1(x)))   x = x + ln2_post(mlp(ln2(x)))

``hook_attn_out`` and ``hook_mlp_out`` are what is added to the stream, dropout and ``ln*_post`` included.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import Attention, Sight
from model.config import GPTConfig
from model.hooks import Point, listening
from model.mlp import MLP, GatedMLP
from model.norms import Norm, make_norm


class Block(nn.Module):
    """What the placements share: the sublayers, their hook points, and the two halves of the forward pass."""

    hook_out_is_single_residual_stream = True  # TransformerLens' lens asks

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.dropout = config.resid_dropout
        self.ln1 = make_norm(config)
        self.attn = Attention(config)
        self.ln2 = make_norm(config)
        self.mlp = GatedMLP(config) if config.gated_mlp else MLP(config)
        self.hook_resid_pre = Point()
        self.hook_attn_in = Point(on_request=True)
        self.hook_q_input, self.hook_k_input, self.hook_v_input = (Point(on_request=True) for _ in range(3))
        self.hook_attn_out = Point()
        self.hook_resid_mid = Point()
        self.hook_mlp_in = Point(on_request=True)
        self.hook_mlp_out = Point()
        self.hook_resid_post = Point()

    def forward(self, x: Tensor, sight: Sight, past: Any = None) -> Tensor:
        """[batch, pos, d_model] -> the same, one block later."""
        x = self.hook_resid_pre(x)
        x = self.hook_resid_mid(self.after_attention(x, sight, past))
        return self.hook_resid_post(self.after_mlp(x))

    def after_attention(self, x: Tensor, sight: Sight, past: Any) -> Tensor:
        raise NotImplementedError

    def after_mlp(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def attention(self, x: Tensor, norm: Norm | None, sight: Sight, past: Any) -> Tensor:
        """The attention sublayer's own output, reading the stream through ``norm``."""
        split = listening(self, "hook_attn_in", "hook_q_input", "hook_k_input", "hook_v_input")
        read = x if norm is None else norm(x)
        if split:
            q_in, k_in, v_in = self._split_inputs(x)
            if norm is not None:
                if not torch.equal(read, norm.unwatched(x)) and listening(norm, "hook_scale", "hook_normalized"):
                    raise ValueError(
                        "A hook edits ln1 while another listens to the split attention inputs (hook_attn_in, "
                        "hook_q_input, ...), which are normalised head by head and would not see the edit; "
                        "run them one at a time."
                    )
                q_in, k_in, v_in = (norm.unwatched(part) for part in (q_in, k_in, v_in))
            out = self.attn.forward_split(q_in, k_in, v_in, sight, past)
        else:
            out = self.attn(read, sight, past)
        return F.dropout(out, self.dropout, self.training) if self.dropout else out

    def _split_inputs(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A copy of the stream for every head: [batch, pos, head, d_model]."""
        n_heads, n_groups = self.attn.n_heads, self.attn.n_groups
        shared = self.hook_attn_in(x.unsqueeze(2).repeat(1, 1, n_heads, 1))
        grouped = shared[:, :, :: n_heads // n_groups]
        # A copy each, so that editing one in place cannot reach another.
        return (
            self.hook_q_input(shared.clone()),
            self.hook_k_input(grouped.clone()),
            self.hook_v_input(grouped.clone()),
        )

    def feed_forward(self, x: Tensor) -> Tensor:
        out = self.mlp(x)
        return F.dropout(out, self.dropout, self.training) if self.dropout else out


class PreNormBlock(Block):
    """Norms read the stream; the stream itself is only ever added to. GPT-2, Llama."""

    def after_attention(self, x: Tensor, sight: Sight, past: Any) -> Tensor:
        return x + self.hook_attn_out(self.attention(x, self.ln1, sight, past))

    def after_mlp(self, x: Tensor) -> Tensor:
        return x + self.hook_mlp_out(self.feed_forward(self.ln2(self.hook_mlp_in(x))))


class PostNormBlock(Block):
    """The stream is normalised after every addition. Vaswani et al. 2017, GPT-1."""

    def after_attention(self, x: Tensor, sight: Sight, past: Any) -> Tensor:
        return self.ln1(x + self.hook_attn_out(self.attention(x, None, sight, past)))

    def after_mlp(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.hook_mlp_out(self.feed_forward(self.hook_mlp_in(x))))


class SandwichNormBlock(Block):
    """Norms on both sides of a sublayer: Gemma 2, Peri-LN (Kim et al. 2025, arXiv 2502.02732)."""

    def __init__(self, config: GPTConfig):
        super().__init__(config)
        self.ln1_post = make_norm(config)
        self.ln2_post = make_norm(config)

    def after_attention(self, x: Tensor, sight: Sight, past: Any) -> Tensor:
        return x + self.hook_attn_out(self.ln1_post(self.attention(x, self.ln1, sight, past)))

    def after_mlp(self, x: Tensor) -> Tensor:
        return x + self.hook_mlp_out(self.ln2_post(self.feed_forward(self.ln2(self.hook_mlp_in(x)))))


BLOCK: dict[str, type[Block]] = {"pre": PreNormBlock, "post": PostNormBlock, "sandwich": SandwichNormBlock}
