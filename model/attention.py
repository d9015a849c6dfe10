"""Causal self-attention: one fused projection and kernel when unwatched, explicit scores and pattern when watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

from model.config import GPTConfig
from model.hooks import Point
from model.norms import RMSNorm
from model.positions import alibi_slopes, rotate


@dataclass(frozen=True)
class Sight:
    """Which keys a query may see, and how positions turn or bias what it sees; made once a forward pass.

    bias: added to the scores, [batch or 1, head or 1, query, key], -inf where masked; None when the plain causal
    triangle (``is_causal``) or nothing at all needs masking.
    rotary: (cos, sin), each [..., pos, 1, d_head], or None.
    """

    bias: Tensor | None
    is_causal: bool
    rotary: tuple[Tensor, Tensor] | None = None


def make_bias(
    config: GPTConfig,
    n_new: int,
    n_past: int,
    attention_mask: Tensor | None,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Tensor | None, bool]:
    """The (bias, is_causal) of ``Sight`` for n_new queries after n_past cached keys.

    attention_mask: [batch, past + new] of 0 (padding) and 1, or None. A padded query sees only itself, which keeps
    its row finite; nobody else sees it.
    """
    plain = config.attention_window is None and config.positional_embedding_type != "alibi" and attention_mask is None
    if plain and (n_new == 1 or n_past == 0):
        return None, n_new > 1
    query = torch.arange(n_past, n_past + n_new, device=device)[:, None]
    key = torch.arange(n_past + n_new, device=device)[None, :]
    visible = key <= query
    if config.attention_window is not None:
        visible = visible & (query - key < config.attention_window)
    visible = visible[None, None]
    if attention_mask is not None:
        visible = (visible & attention_mask[:, None, None, :].bool()) | (key == query)
    bias = torch.zeros(visible.shape, device=device, dtype=dtype).masked_fill(~visible, -torch.inf)
    if config.positional_embedding_type == "alibi":
        distance = (key - query).clamp(max=0).to(dtype)
        bias = bias + alibi_slopes(config.n_heads).to(device, dtype)[:, None, None] * distance
    return bias, False


class Attention(nn.Module):
    """Multi-head or grouped-query attention.

    Stored: ``w_qkv`` (rows: queries, keys, values, head by head) and ``w_o``. The views ``W_Q`` [head, d_model,
    d_head], ``W_K``, ``W_V`` [key-value head, ...] and ``W_O`` [head, d_head, d_model] share its memory: editing
    them edits the weight.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.n_heads, self.n_groups, self.d_head = config.n_heads, config.n_key_value_heads, config.d_head
        self.d_model, self.dropout = config.d_model, config.attn_dropout
        self.scale = config.d_head**-0.5
        self.widths = (self.n_heads * self.d_head, self.n_groups * self.d_head, self.n_groups * self.d_head)
        self.w_qkv = nn.Linear(config.d_model, sum(self.widths), bias=config.qkv_has_bias)
        self.w_o = nn.Linear(self.n_heads * self.d_head, config.d_model, bias=config.attn_out_has_bias)
        self.q_norm = RMSNorm(config.d_head, config.eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.d_head, config.eps) if config.qk_norm else None
        self.hook_q, self.hook_k, self.hook_v = Point(), Point(), Point()
        if config.positional_embedding_type == "rotary":
            self.hook_rot_q, self.hook_rot_k = Point(), Point()
        self.hook_attn_scores, self.hook_pattern = Point(), Point()
        self.hook_z = Point()
        self.hook_result = Point(on_request=True)

    def forward(self, x: Tensor, sight: Sight, past: Any = None) -> Tensor:
        """x [batch, pos, d_model] -> [batch, pos, d_model]; past: one layer of a key-value cache, or None."""
        q, k, v = (
            part.unflatten(-1, (-1, self.d_head))  # [batch, pos, head, d_head]
            for part in self.w_qkv(x).split(self.widths, dim=-1)
        )
        return self.attend(q, k, v, sight, past)

    def forward_split(self, q_in: Tensor, k_in: Tensor, v_in: Tensor, sight: Sight, past: Any = None) -> Tensor:
        """As ``forward``, with an input of its own for every head: each [batch, pos, head, d_model]."""
        q, k, v = (
            einsum(x, w, "batch pos head d_model, head d_model d_head -> batch pos head d_head") + b
            for x, w, b in (
                (q_in, self.W_Q, self.b_Q),
                (k_in, self.W_K, self.b_K),
                (v_in, self.W_V, self.b_V),
            )
        )
        return self.attend(q, k, v, sight, past)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, past: Any) -> Tensor:
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if sight.rotary is not None:
            q, k = self.hook_rot_q(rotate(q, *sight.rotary)), self.hook_rot_k(rotate(k, *sight.rotary))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [batch, head, pos, d_head]
        if past is not None:
            k, v = past.append(k, v)
        if self.n_groups < self.n_heads:
            k, v = self._share(k), self._share(v)
        if self.hook_pattern.listening or self.hook_attn_scores.listening or _kernel_is_slow(v):
            z = self._explicit(q, k, v, sight)
        else:
            dropout = self.dropout if self.training else 0.0
            z = F.scaled_dot_product_attention(
                q, k, v, attn_mask=sight.bias, dropout_p=dropout, is_causal=sight.is_causal, scale=self.scale
            )
        z = self.hook_z(z.transpose(1, 2))  # [batch, pos, head, d_head]
        if self.hook_result.listening:
            result = einsum(z, self.W_O, "batch pos head d_head, head d_head d_model -> batch pos head d_model")
            out = self.hook_result(result).sum(-2)
            return out if self.w_o.bias is None else out + self.w_o.bias
        return self.w_o(z.flatten(-2))

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight) -> Tensor:
        # Autocast would widen the softmax's output to fp32 for nothing: it sums in fp32 either way.
        with torch.autocast(v.device.type, enabled=False):
            scores = (q * self.scale).to(v.dtype) @ k.to(v.dtype).transpose(-1, -2)  # [batch, head, query, key]
            # In place: nobody has seen the product yet, and its derivative does not need it.
            if sight.is_causal:
                scores += scores.new_full(scores.shape[-2:], -torch.inf).triu_(1)
            elif sight.bias is not None:
                scores += sight.bias.to(v.dtype)
            pattern = self.hook_pattern(self.hook_attn_scores(scores).softmax(-1))
            return F.dropout(pattern, self.dropout, self.training) @ v

    def _share(self, x: Tensor) -> Tensor:
        """Each key-value head stands for n_heads / n_key_value_heads query heads."""
        return x.repeat_interleave(self.n_heads // self.n_groups, dim=1)

    def _rows(self, tensor: Tensor | None, part: int) -> Tensor:
        """The query, key or value rows of w_qkv's weight or bias, as [head, d_head, ...]; zeros for no bias."""
        width = self.widths[part]
        if tensor is None:
            return self.w_qkv.weight.new_zeros(width // self.d_head, self.d_head)
        start = sum(self.widths[:part])
        return tensor[start : start + width].unflatten(0, (-1, self.d_head))

    @property
    def W_Q(self) -> Tensor:
        return self._rows(self.w_qkv.weight, 0).transpose(-1, -2)

    @property
    def W_K(self) -> Tensor:
        return self._rows(self.w_qkv.weight, 1).transpose(-1, -2)

    @property
    def W_V(self) -> Tensor:
        return self._rows(self.w_qkv.weight, 2).transpose(-1, -2)

    @property
    def W_O(self) -> Tensor:
        return rearrange(self.w_o.weight, "d_model (head d_head) -> head d_head d_model", d_head=self.d_head)

    @property
    def b_Q(self) -> Tensor:
        return self._rows(self.w_qkv.bias, 0)

    @property
    def b_K(self) -> Tensor:
        return self._rows(self.w_qkv.bias, 1)

    @property
    def b_V(self) -> Tensor:
        return self._rows(self.w_qkv.bias, 2)

    @property
    def b_O(self) -> Tensor:
        return bias_of(self.w_o)


def _kernel_is_slow(v: Tensor) -> bool:
    """torch's fused attention on CPU takes about four times as long as plain matrix products to differentiate in
    half precision (torch 2.13, 32 x 4 heads x 128 positions x 64)."""
    return v.dtype in (torch.bfloat16, torch.float16) and v.device.type == "cpu" and torch.is_grad_enabled()


def bias_of(linear: nn.Linear) -> Tensor:
    """A linear map's bias, zeros when it has none."""
    return linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias
