"""What a model is like inside at a checkpoint: one record per checkpoint makes the film of its training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab.training.evaluation import evaluating

if TYPE_CHECKING:
    from model import GPT

SCORES = ("induction", "previous_token", "duplicate_token", "first_token", "entropy")


def measure_dynamics(model: GPT, windows: np.ndarray, probe: np.ndarray) -> dict[str, Any]:
    """Norms and head scores of `model` as it is; draws no random numbers, leaves mode and gradients as they
    were.

    windows: [batch, n_ctx + 1], the batch about to be trained on; its loss gives the gradients, dropout off.
    probe: [pos] token ids on which the residual stream is measured.

    Returns grad_norm [layer] (2-norm over the parameters of each block) and grad_norm_embed; residual_rms
    [layer] of hook_resid_post, attn_rms and mlp_rms [layer] of what each sublayer adds, all root mean squares over
    positions and d_model; and SCORES [layer][head] (see lab.analysis.head_scores).
    """
    from lab.analysis import head_scores, residual_norms

    with evaluating(model):
        norms = residual_norms(model, probe.tolist())
        scores = head_scores(model)
    return {
        **_gradient_norms(model, windows),
        "residual_rms": _rms(norms.resid_post),
        "attn_rms": _rms(norms.attn_out),
        "mlp_rms": _rms(norms.mlp_out),
        **{name: getattr(scores, name) for name in SCORES},
    }


def _rms(per_position: np.ndarray) -> np.ndarray:
    """[layer] from RMS values [layer, pos]."""
    return np.sqrt(np.square(per_position).mean(axis=1))


def _gradient_norms(model: GPT, windows: np.ndarray) -> dict[str, Any]:
    parameters = dict(model.named_parameters())
    tokens = torch.from_numpy(windows).to(model.device)
    with evaluating(model), torch.enable_grad():
        loss = model(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:])
        # grad() rather than backward(): whatever lies in .grad stays
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    squares: dict[str, float] = {}
    for name, gradient in zip(parameters, gradients, strict=True):
        part = ".".join(name.split(".")[:2]) if name.startswith("blocks.") else name.split(".")[0]
        if gradient is not None:
            squares[part] = squares.get(part, 0.0) + gradient.double().square().sum().item()
    layers = [squares.get(f"blocks.{layer}", 0.0) ** 0.5 for layer in range(model.config.n_layers)]
    return {"grad_norm": layers, "grad_norm_embed": squares.get("embed", 0.0) ** 0.5}
