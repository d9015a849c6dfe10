"""The forward pass of one new token that nobody watches, without modules: what generation spends its time in.

A small model's time per token is the overhead of calling modules, not arithmetic. Here the same operations are
called on the same parameters in a flat loop. It stands in for ``GPT._forward`` only where ``TokenPass.covers`` knows
all of the model and nobody watches it (``TokenPass.stands_in``); otherwise generation goes through the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from model.attention import Attention
from model.block import BLOCK, Block, PostNormBlock, SandwichNormBlock
from model.hooks import Point
from model.kv_cache import KVCache, LayerCache
from model.mlp import MLP, GatedMLP
from model.norms import LayerNorm, NoNorm, Norm, RMSNorm
from model.positions import LearnedPositions, SinusoidalPositions, alibi_slopes, table_length

if TYPE_CHECKING:
    from model.gpt import GPT

Map = Callable[[Tensor], Tensor]


class TokenPass:
    """Logits of one new token a row, for rows that share a cache.

    mask: [batch, every position to come] of 0 for left padding and 1 for tokens, or None.
    """

    def __init__(self, model: GPT, modules: Iterable[nn.Module], mask: Tensor | None = None):
        config = model.config
        self.model = model
        self.modules = [module for module in modules if not isinstance(module, Point)]
        blocks = cast("list[Block]", list(model.blocks))
        attention = blocks[0].attn
        self.n_heads, self.n_groups, self.d_head = attention.n_heads, attention.n_groups, attention.d_head
        self.scale, self.window, self.cap = attention.scale, config.attention_window, config.logit_soft_cap
        self.embed, self.unembed = model.embed.weight, model.unembed.weight
        self.layers = [_layer(block) for block in blocks]
        self.final = _norm(model.ln_final)
        # A padded row's positions start where its padding ends.
        self.shift = None if mask is None else (mask == 0).sum(-1)  # [batch]
        self.reach = 0  # positions that the three tables below cover
        self.positions: Tensor | None = None  # [pos, d_model]
        self.rotary: tuple[Tensor, Tensor] | None = None  # each [pos, 1, d_head]
        self.alibi: Tensor | None = None  # [head, 1, pos]: what a query at the end adds to each key
        self.hidden: Tensor | None = None  # [batch, 1, 1, pos]: -inf on padding
        if mask is not None:
            hidden = torch.zeros(mask.shape, device=model.device, dtype=model.dtype)
            self.hidden = hidden.masked_fill(mask == 0, -torch.inf)[:, None, None, :]

    def _reach_to(self, end: int) -> None:
        """Make the tables of positions anew, for those below ``end`` and as many again."""
        model, config = self.model, self.model.config
        self.reach = table_length(end, config.n_ctx)
        everywhere = torch.arange(self.reach, device=model.device)
        if isinstance(model.pos_embed, LearnedPositions):
            self.positions = model.pos_embed.weight
        elif isinstance(model.pos_embed, SinusoidalPositions):
            self.positions = model.pos_embed(everywhere).to(model.dtype)
        if model.rotary is not None:
            cos, sin = model.rotary(everywhere, model.dtype, self.reach)
            half = self.d_head // 2
            # rotate() negates the second half of x, here the first half of the sines is negated instead
            self.rotary = cos, torch.cat((-sin[..., :half], sin[..., half:]), dim=-1)
        if config.positional_embedding_type == "alibi":
            distance = (everywhere - (self.reach - 1)).to(model.dtype)
            self.alibi = alibi_slopes(config.n_heads).to(distance)[:, None, None] * distance

    @staticmethod
    def covers(modules: Iterable[nn.Module]) -> bool:
        """Whether this class knows every one of a model's modules."""
        from model.gpt import GPT, Embed, Unembed

        known = {
            *(GPT, Embed, Unembed, LearnedPositions, SinusoidalPositions, *BLOCK.values(), nn.ModuleList),
            *(Attention, MLP, GatedMLP, LayerNorm, RMSNorm, NoNorm, nn.Linear, Point),
        }
        return all(type(module) in known and "forward" not in vars(module) for module in modules)

    @property
    def stands_in(self) -> bool:
        """Whether the modules would do no more than this just now: nobody listens to a hook point, a module or all
        modules, and autocast, which does not know matrix-vector products, is off."""
        if (self.model.watch.on and self.model.refresh_watch()) or _has_any_global_hook():
            return False
        if torch.is_autocast_enabled(self.model.device.type):
            return False
        return not any(module._forward_hooks or module._forward_pre_hooks for module in self.modules)

    def __call__(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """tokens [batch], which follow what the cache holds -> logits [batch, d_vocab]."""
        n_past = cache.length
        if n_past >= self.reach:
            self._reach_to(n_past + 1)
        batch = tokens.shape[0]
        x = torch.embedding(self.embed, tokens)  # [batch, d_model]
        position = n_past if self.shift is None else n_past - self.shift
        if self.positions is not None:
            x = x + self.positions[position]
        flat = (-1,) if batch == 1 else (batch, -1)  # a single row is a vector: see _product
        x = x.view(flat)
        # [1, d_head], or [batch, 1, 1, d_head] when padding shifts the rows
        rotary = None if self.rotary is None else tuple(self._at(table, position) for table in self.rotary)
        bias = self._bias(n_past + 1)
        for layer, past in zip(self.layers, cache.layers, strict=True):
            read = x if layer.before_attention is None else layer.before_attention(x)
            out = layer.out(self._attend(layer, read, batch, past, rotary, bias).view(flat))
            x = x + (out if layer.on_attention is None else layer.on_attention(out))
            x = x if layer.after_attention is None else layer.after_attention(x)
            out = layer.mlp(x if layer.before_mlp is None else layer.before_mlp(x))
            x = x + (out if layer.on_mlp is None else layer.on_mlp(out))
            x = x if layer.after_mlp is None else layer.after_mlp(x)
        x = x if self.final is None else self.final(x)
        logits = _product(x, self.unembed).view(batch, -1)
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def _at(self, table: Tensor, position: Tensor | int) -> Tensor:
        return table[position] if isinstance(position, int) else table[position].unsqueeze(1)

    def _attend(
        self,
        layer: _Layer,
        x: Tensor,
        batch: int,
        past: LayerCache,
        rotary: tuple[Tensor, ...] | None,
        bias: Tensor | None,
    ) -> Tensor:
        """x [batch, d_model] -> z of all heads, [batch, head, 1, d_head]."""
        n_heads, n_groups = self.n_heads, self.n_groups
        heads = layer.qkv(x).view(batch, -1, 1, self.d_head)  # of q, k, v: [batch, head, 1, d_head]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = heads.narrow(1, 0, n_heads), heads.narrow(1, n_heads, n_groups)
            q.copy_(layer.q_norm(q))
            k.copy_(layer.k_norm(k))
        if rotary is not None:
            _rotate_(heads.narrow(1, 0, n_heads + n_groups), *rotary)
        q, kv = heads.split_with_sizes((n_heads, 2 * n_groups), 1)
        k, v = past.append_joined(kv)  # each [batch, group, key, d_head]
        if self.window is not None:
            k, v = k[:, :, -self.window :], v[:, :, -self.window :]
        if n_groups < n_heads:
            # The query heads of a group stand where a longer input has its queries: no key needs repeating.
            q = q.view(batch, n_groups, -1, self.d_head)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=self.scale)

    def _bias(self, n_keys: int) -> Tensor | None:
        """What is added to the scores of the new token, [batch or 1, group, query head of the group or 1, key]."""
        first = 0 if self.window is None else max(0, n_keys - self.window)
        bias = None if self.hidden is None else self.hidden[..., first:n_keys]
        if self.alibi is not None:
            end = self.alibi.shape[-1]
            slopes = self.alibi[..., end - (n_keys - first) :].view(1, self.n_groups, -1, n_keys - first)
            bias = slopes if bias is None else slopes + bias
        return bias


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one block does to x [batch, d_model], as plain functions; None where its placement has no norm."""

    before_attention: Map | None
    qkv: Map
    q_norm: Map | None
    k_norm: Map | None
    out: Map
    on_attention: Map | None
    after_attention: Map | None
    before_mlp: Map | None
    mlp: Map
    on_mlp: Map | None
    after_mlp: Map | None


def _layer(block: Block) -> _Layer:
    ln1, ln2 = _norm(block.ln1), _norm(block.ln2)
    is_post, is_sandwich = isinstance(block, PostNormBlock), isinstance(block, SandwichNormBlock)
    attention = block.attn
    return _Layer(
        before_attention=None if is_post else ln1,
        qkv=_linear(attention.w_qkv),
        q_norm=_norm(attention.q_norm),
        k_norm=_norm(attention.k_norm),
        out=_linear(attention.w_o),
        on_attention=_norm(block.ln1_post) if is_sandwich else None,
        after_attention=ln1 if is_post else None,
        before_mlp=None if is_post else ln2,
        mlp=_mlp(block.mlp),
        on_mlp=_norm(block.ln2_post) if is_sandwich else None,
        after_mlp=ln2 if is_post else None,
    )


def _norm(norm: Any) -> Map | None:
    """The norm without its hook points: what ``Norm.fused`` calls, one Python call shorter."""
    if not isinstance(norm, Norm):
        return None
    shape, weight, bias, eps = list(norm.w.shape), norm.w, norm.b, norm.eps
    if isinstance(norm, RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _linear(linear: nn.Linear) -> Map:
    weight, bias = linear.weight, linear.bias
    if bias is None:
        return lambda x: _product(x, weight)
    return lambda x: torch.addmv(bias, weight, x) if x.ndim == 1 else F.linear(x, weight, bias)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T. A vector goes to the matrix-vector kernel, in half precision on CPU half as fast again as the other."""
    return torch.mv(weight, x) if x.ndim == 1 else F.linear(x, weight)


def _mlp(mlp: MLP) -> Map:
    w_in, w_out, act = _linear(mlp.w_in), _linear(mlp.w_out), mlp.act
    if isinstance(mlp, GatedMLP):
        w_gate = _linear(mlp.w_gate)
        return lambda x: w_out(act(w_gate(x)) * w_in(x))
    return lambda x: w_out(act(w_in(x)))


def _rotate_(x: Tensor, cos: Tensor, signed_sin: Tensor) -> None:
    """``positions.rotate`` of x [batch, head, 1, d_head] in place, the same numbers in fewer operations."""
    torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), signed_sin, out=x)
