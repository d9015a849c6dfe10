"""Muon, with equal matrices orthogonalised together and stacked maps (queries, keys, values) apart.

The rule is torch.optim.Muon's (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/); what differs
is how it is computed. A small GPT has many small matrices, and one batched product over all of one shape
takes about half the time of a product each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonalize(matrices: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """The nearest semi-orthogonal matrix to each of [matrix, row, column], approximately: U V^T of its U S
    V^T.

    Five Newton-Schulz steps with the quintic of Jordan et al., which leaves singular values between about
    0.7 and 1.2: near enough for an update, and products are all it takes. Wide matrices (rows <= columns)
    are cheapest.
    """
    a, b, c = NEWTON_SCHULZ
    x = matrices.to(dtype)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # a spectral norm of at most 1
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT  # [matrix, row, row]
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Muon):
    """torch.optim.Muon over matrices [row, column], batched by shape.

    rows: for a parameter that stacks several linear maps, the row counts of each; each is orthogonalised on
    its own. compute_dtype: of the Newton-Schulz products; bf16 unless the processor has to emulate it.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        lr: float,
        weight_decay: float,
        momentum: float,
        rows: Mapping[Tensor, tuple[int, ...]] | None = None,
        compute_dtype: torch.dtype = torch.bfloat16,
    ):
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, momentum=momentum)
        self._rows = dict(rows or {})
        self._dtype = compute_dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if closure is not None:
            raise ValueError("Muon here takes no closure")
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            momentum, lr = group["momentum"], group["lr"]
            gradients: list[Tensor] = [p.grad for p in parameters]
            for p in parameters:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            buffers = [self.state[p]["momentum_buffer"] for p in parameters]
            torch._foreach_lerp_(buffers, gradients, 1 - momentum)
            updates = torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov
            if group["weight_decay"]:
                torch._foreach_mul_(parameters, 1 - lr * group["weight_decay"])
            self._apply(parameters, updates, lr)

    def _apply(self, parameters: Sequence[Tensor], updates: Sequence[Tensor], lr: float) -> None:
        """p <- p - lr sqrt(max(1, rows / columns)) orthogonalize(update), all maps of one shape at once."""
        # Tall matrices are turned on their side, so that d -> 4d and 4d -> d share a batch.
        batches: defaultdict[tuple[int, int], list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
        for p, update in zip(parameters, updates, strict=True):
            rows = self._rows.get(p) or (p.shape[0],)
            for target, part in zip(p.split(rows), update.split(rows), strict=True):
                scale = lr * math.sqrt(max(1.0, part.shape[0] / part.shape[1]))
                if part.shape[0] > part.shape[1]:
                    target, part = target.mT, part.mT
                batches[(part.shape[0], part.shape[1])].append((target, part, scale))
        for batch in batches.values():
            orthogonal = orthogonalize(torch.stack([part for _, part, _ in batch]), self._dtype)
            for (target, _, scale), update in zip(batch, orthogonal, strict=True):
                target.add_(update, alpha=-scale)
