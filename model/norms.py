"""LayerNorm and RMSNorm, fused when unwatched, explicit when their scale or normalised output is watched."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import GPTConfig
from model.hooks import Point


class Norm(nn.Module):
    """What the norms share: learned ``w`` (and ``b``), ``hook_scale`` [..., 1], ``hook_normalized`` [..., width].

    Statistics are taken in fp32 at least, whatever the input's precision. ``hook_normalized`` fires before the
    learned affine map, as in TransformerLens.
    """

    def __init__(self, width: int, eps: float, bias: bool):
        super().__init__()
        self.eps = eps
        self.w = nn.Parameter(torch.ones(width))
        self.b = nn.Parameter(torch.zeros(width)) if bias else None
        self.hook_scale = Point()
        self.hook_normalized = Point()

    def forward(self, x: Tensor) -> Tensor:
        if not (self.hook_scale.listening or self.hook_normalized.listening):
            return self.fused(x)
        return self.explicit(x)

    def fused(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def centre(self, x: Tensor) -> Tensor:
        """What is divided by the scale: x itself, or x less its mean."""
        return x

    def explicit(self, x: Tensor) -> Tensor:
        centred = self.centre(_at_least_fp32(x))
        normalized = centred / self.hook_scale(self.scale(centred))
        return self.affine(self.hook_normalized(normalized).to(x.dtype))

    def unwatched(self, x: Tensor) -> Tensor:
        """``explicit`` to the bit, without firing a hook."""
        centred = self.centre(_at_least_fp32(x))
        return self.affine((centred / self.scale(centred)).to(x.dtype))

    def scale(self, centred: Tensor) -> Tensor:
        return (centred.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()

    def affine(self, normalized: Tensor) -> Tensor:
        w = self.w.to(normalized.dtype)
        return normalized * w if self.b is None else torch.addcmul(self.b.to(normalized.dtype), normalized, w)


class LayerNorm(Norm):
    """(x - mean) / sqrt(var + eps) * w + b, Ba et al. 2016 (arXiv 1607.06450)."""

    def centre(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)

    def fused(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.w.shape, self.w, self.b, self.eps)


class RMSNorm(Norm):
    """x / sqrt(mean(x^2) + eps) * w, Zhang and Sennrich 2019 (arXiv 1910.07467). It has no bias."""

    def __init__(self, width: int, eps: float, bias: bool = False):
        super().__init__(width, eps, bias=False)

    def fused(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return _RMSNormFunction.apply(_at_least_fp32(x), self.w, self.eps)[0].to(x.dtype)
        return F.rms_norm(x, self.w.shape, self.w.to(x.dtype), self.eps)


class _RMSNormFunction(torch.autograd.Function):
    """RMSNorm with its derivative by hand: torch composes it of a dozen passes over memory on CPU, this takes six.

    With y = x r, r = 1 / rms(x) and the output y w: dx = r (g w - y mean(g w y)), dw = sum(g y).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        r = (length.square() / x.shape[-1] + eps).rsqrt()
        y = x * r
        return y * w, y, r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: tuple[Tensor, Tensor, Tensor]) -> None:
        _, y, r = output
        ctx.mark_non_differentiable(y, r)
        ctx.save_for_backward(y, r, inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor, Tensor, None]:
        y, r, w = ctx.saved_tensors
        g, wide = g.to(y.dtype), w.to(y.dtype)
        gy = g * y
        along = (gy @ wide).unsqueeze(-1) / y.shape[-1]
        return torch.addcmul(g * wide, y, along, value=-1) * r, gy.flatten(0, -2).sum(0).to(w.dtype), None


class NoNorm(nn.Module):
    """The identity, where a norm would stand: Post-Norm's last block ends in its own norm.

    It keeps the hook points of a norm; the scale is 1.
    """

    def __init__(self) -> None:
        super().__init__()
        self.w = None
        self.b = None
        self.hook_scale = Point()
        self.hook_normalized = Point()

    def forward(self, x: Tensor) -> Tensor:
        if not (self.hook_scale.listening or self.hook_normalized.listening):
            return x
        scale = self.hook_scale(torch.ones_like(x[..., :1]))
        return self.hook_normalized(x / scale)


def make_norm(config: GPTConfig, width: int | None = None) -> Norm:
    """The norm a config asks for, over ``width`` (default d_model)."""
    kind = LayerNorm if config.normalization_type == "LN" else RMSNorm
    return kind(width or config.d_model, config.eps, config.use_bias)


def _at_least_fp32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
