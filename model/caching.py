"""Hooks that keep what a pass computes: activations, and the gradients that reach them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformer_lens.utilities import Slice


class Keeper:
    """A forward hook that keeps each activation in ``cache``, and with ``gradients`` its gradient as ``name_grad``.

    copies: keep copies, which a later edit in place cannot reach; otherwise references.
    pos_slice: TransformerLens' ``Slice`` or what makes one, applied to the position axis.
    Raises ValueError when ``remove_batch_dim`` meets more than one row.
    """

    def __init__(
        self,
        cache: dict[str, Tensor],
        device: torch.device | str | None = None,
        remove_batch_dim: bool = False,
        pos_slice: Any = None,
        gradients: bool = False,
        copies: bool = True,
    ):
        self.cache = cache
        self.device = device
        self.remove_batch_dim = remove_batch_dim
        self.slice = Slice.unwrap(pos_slice) if pos_slice is not None else None
        self.gradients = gradients
        self.copies = copies

    def __call__(self, activation: Tensor, hook: Any) -> Tensor | None:
        self._keep(activation, hook.name)
        if not self.gradients or not torch.is_grad_enabled() or not activation.is_floating_point():
            return None
        # Where all weights so far are frozen autograd has no graph yet: it begins here.
        watched = activation if activation.requires_grad else activation.detach().requires_grad_().clone()
        watched.register_hook(lambda gradient: self._keep(gradient, hook.name, "_grad"))
        return watched

    def backward(self, gradient: Tensor, hook: Any) -> None:
        """A backward hook that keeps the same gradient."""
        self._keep(gradient, hook.name, "_grad")

    def _keep(self, tensor: Tensor, name: str, suffix: str = "") -> None:
        kept = tensor.detach()
        if self.slice is not None:
            scores = name.endswith(("hook_pattern", "hook_attn_scores"))
            kept = self.slice.apply(kept, dim=-2 if scores else 1)
        if self.device is not None:
            kept = kept.to(self.device)
        if self.remove_batch_dim:
            if kept.shape[0] != 1:
                raise ValueError(f"remove_batch_dim needs a batch of one; {name} has {kept.shape[0]} rows.")
            kept = kept[0]
        self.cache[name + suffix] = kept.clone() if self.copies else kept

    def refuse_missing(self) -> None:
        """ValueError when an activation was kept and its gradient never came."""
        missing = [f"{name}_grad" for name in self.cache if not name.endswith("_grad")]
        missing = [name for name in missing if name not in self.cache]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise ValueError(
                f"No gradient came for {', '.join(missing[:3])}{more}: the loss does not depend on these activations. "
                "A hook that detaches or replaces a later activation cuts them off, and split attention inputs "
                "(hook_q_input, ...) pass over ln1: remove the hook, or name other points."
            )
