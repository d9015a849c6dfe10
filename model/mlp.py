"""The MLP of a block, plain or gated."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import bias_of
from model.config import GPTConfig
from model.hooks import Point


def gelu_new(x: Tensor) -> Tensor:
    """GELU's tanh form, GPT-2's: Hendrycks and Gimpel 2016 (arXiv 1606.08415)."""
    return F.gelu(x, approximate="tanh")


def relu2(x: Tensor) -> Tensor:
    """ReLU squared: So et al. 2021 (arXiv 2109.08668)."""
    positive = F.relu(x)
    return positive * positive  # cheaper to differentiate than square()


def identity(x: Tensor) -> Tensor:
    """Nothing: with a gate this is the bilinear MLP of Shazeer 2020 (arXiv 2002.05202)."""
    return x


ACTIVATION: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": gelu_new,
    "relu": F.relu,
    "relu2": relu2,
    "silu": F.silu,
    "identity": identity,
}


class MLP(nn.Module):
    """act(x W_in + b_in) W_out + b_out. Neurons: ``hook_pre`` and ``hook_post`` [batch, pos, d_mlp]."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.act = ACTIVATION[config.act_fn]
        self.w_in = nn.Linear(config.d_model, config.d_mlp, bias=config.mlp_has_bias)
        self.w_out = nn.Linear(config.d_mlp, config.d_model, bias=config.mlp_has_bias)
        self.hook_pre = Point()
        self.hook_post = Point()

    def forward(self, x: Tensor) -> Tensor:
        return self.w_out(self.hook_post(self.act(self.hook_pre(self.w_in(x)))))

    # TransformerLens' views: [d_model, d_mlp], [d_mlp, d_model].
    @property
    def W_in(self) -> Tensor:
        return self.w_in.weight.T

    @property
    def W_out(self) -> Tensor:
        return self.w_out.weight.T

    @property
    def b_in(self) -> Tensor:
        return bias_of(self.w_in)

    @property
    def b_out(self) -> Tensor:
        return bias_of(self.w_out)


class GatedMLP(MLP):
    """(act(x W_gate + b_gate) * (x W_in + b_in)) W_out + b_out: Shazeer 2020 (arXiv 2002.05202); silu is SwiGLU.

    ``hook_pre`` is the gate before its activation, ``hook_pre_linear`` what it multiplies, ``hook_post`` the product.
    """

    def __init__(self, config: GPTConfig):
        super().__init__(config)
        self.w_gate = nn.Linear(config.d_model, config.d_mlp, bias=config.mlp_has_bias)
        self.hook_pre_linear = Point()

    def forward(self, x: Tensor) -> Tensor:
        gate = self.act(self.hook_pre(self.w_gate(x)))
        return self.w_out(self.hook_post(gate * self.hook_pre_linear(self.w_in(x))))

    @property
    def W_gate(self) -> Tensor:
        return self.w_gate.weight.T

    @property
    def b_gate(self) -> Tensor:
        return bias_of(self.w_gate)
