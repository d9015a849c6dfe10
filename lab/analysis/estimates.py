"""Attribution patching: a whole grid of patches estimated from one gradient.

To first order the patch of an activation a by a' changes the metric by (a' - a) . dm/da, and one backward pass gives
dm/da everywhere (Nanda 2023, "Attribution Patching"; Syed et al. 2023, arXiv 2310.10348).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.metrics import Metric, read_metric
from lab.analysis.patching import PatchingGrid, Plan, make_plan, patching_grid, read_pair
from lab.analysis.prompts import Prompt, as_array, without_dropout
from lab.analysis.sites import Index

if TYPE_CHECKING:
    from model.gpt import GPT


def attribution_patching(
    model: GPT,
    clean: Prompt,
    corrupt: Prompt,
    metric: Metric,
    *,
    site: str = "resid_pre",
    layers: Index = None,
    each_position: bool | None = None,
    direction: str = "denoise",
    exact: PatchingGrid | None = None,
) -> PatchingGrid:
    """The grid of ``activation_patching``, same arguments and shape, estimated for the price of a few forward passes.

    exact: the true grid, to report ``correlation`` with. The estimate is good for small changes such as one head's
    output and poor where the network bends in between: early residual streams, saturated attention. Compare before
    you trust it. Parameters' gradients are left as they are.
    """
    pair = read_pair(model, clean, corrupt, direction)
    length = pair.base.shape[1]
    reading = read_metric(model, metric, length)
    plan = make_plan(model, site, layers, each_position, length)
    end, n_layers = reading.last + 1, model.config.n_layers
    run_to = length if model.is_watched() else end  # the user's own hooks see the whole prompt
    points = [place.point(layer) for layer, place in plan.rows]
    final = f"blocks.{n_layers - 1}.hook_resid_post"
    base: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> Tensor:
        if not activation.requires_grad:  # frozen weights: the graph begins here
            activation = activation.detach().requires_grad_()
        base[hook.name] = activation
        return activation

    with without_dropout(model):
        with torch.no_grad():
            _, source = model.run_with_cache(
                pair.source[:, :run_to], names_filter=[*points, final], stop_at_layer=n_layers
            )
            other = float(reading(source[final][:, :end]))
        with torch.enable_grad(), model.hooks(fwd_hooks=[(points, keep)]):
            value = reading(model(pair.base[:, :run_to], stop_at_layer=n_layers)[:, :end])[0]
            if not value.requires_grad:
                raise ValueError(
                    f"The metric ({reading.name}) has no gradient with respect to the logits, which an estimate is "
                    "made of: let it return a tensor computed from them, or take activation_patching."
                )
            gradients = torch.autograd.grad(value, [base[point] for point in points], allow_unused=True)
    values = np.zeros(plan.shape)
    for number, (point, gradient) in enumerate(zip(points, gradients, strict=True)):
        if gradient is not None:
            values[number] = _on_axes((source[point] - base[point].detach()) * gradient, plan, length)
    grid = patching_grid(
        model, pair, plan, reading, values + float(value.detach()), float(value.detach()), other, method="attribution"
    )
    return grid if exact is None else compared(grid, exact)


def _on_axes(products: Tensor, plan: Plan, length: int) -> np.ndarray:
    """Sum [1, pos, (head), width] to the axes asked for; positions after those that were run count nothing."""
    by_unit = products[0].double()
    if plan.site != "neuron":
        by_unit = by_unit.sum(-1)  # [pos] or [pos, head]
    if plan.site == "pattern":
        by_unit = by_unit.T  # from [head, query]
    if "position" not in plan.axes:
        return as_array(by_unit.sum(0))
    padded = np.zeros((length, *by_unit.shape[1:]))
    padded[: len(by_unit)] = as_array(by_unit)
    return padded.T


def compared(estimate: PatchingGrid, exact: PatchingGrid) -> PatchingGrid:
    """The estimate with its correlation to the exact grid. ValueError when they are not of the same patches."""
    for name in ("axes", "site", "direction", "metric"):
        if getattr(estimate, name) != getattr(exact, name):
            raise ValueError(
                f"The exact grid differs in {name}: {getattr(exact, name)!r} and not {getattr(estimate, name)!r}."
            )
    same_prompts = np.array_equal(estimate.clean_tokens, exact.clean_tokens) and np.array_equal(
        estimate.corrupt_tokens, exact.corrupt_tokens
    )
    if estimate.values.shape != exact.values.shape or not same_prompts:
        raise ValueError("The exact grid is of other layers or prompts; estimate and compare the same ones.")
    a, b = estimate.effect.ravel(), exact.effect.ravel()
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known] - a[known].mean(), b[known] - b[known].mean()
    size = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return replace(estimate, correlation=float((a * b).sum() / size) if size > 0 else float("nan"))
