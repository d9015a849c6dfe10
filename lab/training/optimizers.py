"""Which optimizer moves which parameter, and how its state is written to disk.

Two groups for AdamW (decayed: two dimensions or more; not decayed: norms and biases) and, with Muon, a third
for the matrices inside the blocks. Every parameter is in exactly one; that is checked, not hoped for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lab.training.config import TrainingConfig
from lab.training.muon import Muon
from lab.training.precision import native_bf16

if TYPE_CHECKING:
    from model import GPT


QUANTITIES = {"adamw": ("step", "exp_avg", "exp_avg_sq"), "muon": ("momentum_buffer",)}
"""What each optimizer keeps of a parameter."""


@dataclass(frozen=True)
class ParameterGroup:
    """The parameters, by name, that one rule moves."""

    kind: str  # adamw | muon
    weight_decay: float
    names: tuple[str, ...]


def parameter_groups(model: nn.Module, config: TrainingConfig) -> list[ParameterGroup]:
    """Assign every parameter of `model` to one group.

    AdamW decays tensors of two dimensions or more and leaves norms and biases alone. With Muon, the matrices
    of the blocks are Muon's; embeddings and the head stay with AdamW, as rows of a table are no linear map
    (Jordan et al. 2024, "Muon").
    """
    hidden, decayed, plain = [], [], []
    for name, parameter in model.named_parameters():
        if config.optimizer == "muon" and parameter.ndim == 2 and name.startswith("blocks."):
            hidden.append(name)
        elif parameter.ndim >= 2:
            decayed.append(name)
        else:
            plain.append(name)
    groups = [
        ParameterGroup("muon", config.weight_decay, tuple(hidden)),
        ParameterGroup("adamw", config.weight_decay, tuple(decayed)),
        ParameterGroup("adamw", 0.0, tuple(plain)),
    ]
    groups = [group for group in groups if group.names]
    require_partition((name for name, _ in model.named_parameters()), groups)
    return groups


def require_partition(names: Iterable[str], groups: Iterable[ParameterGroup]) -> None:
    """Raise ValueError unless every name is in exactly one group, naming those that are not."""
    seen: dict[str, int] = dict.fromkeys(names, 0)
    for group in groups:
        for name in group.names:
            if name not in seen:
                raise ValueError(f"the optimizer was given {name!r}, which is no parameter of the model")
            seen[name] += 1
    wrong = {name: count for name, count in seen.items() if count != 1}
    if wrong:
        listed = ", ".join(f"{name} ({count} times)" for name, count in wrong.items())
        raise ValueError(f"every parameter must be in exactly one optimizer group, but: {listed}")


class Optimizers:
    """The optimizers of one model as one: a step, a learning rate, and a state that can be saved.

    Gradients are freed, not zeroed, between steps.
    """

    def __init__(self, model: GPT, config: TrainingConfig):
        self._parameters = dict(model.named_parameters())
        self.groups = parameter_groups(model, config)
        adamw = [g for g in self.groups if g.kind == "adamw"]
        muon = [g for g in self.groups if g.kind == "muon"]
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        if adamw:
            self._optimizers["adamw"] = torch.optim.AdamW(
                [self._torch_group(g) for g in adamw],
                lr=config.lr,
                betas=config.betas,
                eps=config.adam_eps,
                fused=all(p.device.type in ("cpu", "cuda") for p in self._parameters.values()),
            )
        if muon:
            rows = _stacked_rows(model, muon[0].names) if config.muon_split_qkv else {}
            self._optimizers["muon"] = Muon(
                [self._parameters[name] for name in muon[0].names],
                lr=config.muon_lr,
                weight_decay=muon[0].weight_decay,
                momentum=config.muon_momentum,
                rows={self._parameters[name]: counts for name, counts in rows.items()},
                compute_dtype=torch.bfloat16 if native_bf16(model.device) else torch.float32,
            )
        self._peaks = {kind: [group["lr"] for group in opt.param_groups] for kind, opt in self._optimizers.items()}

    def _torch_group(self, group: ParameterGroup) -> dict[str, object]:
        parameters = [self._parameters[name] for name in group.names]
        return {"params": parameters, "weight_decay": group.weight_decay}

    def set_lr(self, multiplier: float) -> None:
        """Set every learning rate to `multiplier` times its peak."""
        for kind, optimizer in self._optimizers.items():
            for group, peak in zip(optimizer.param_groups, self._peaks[kind], strict=True):
                group["lr"] = multiplier * peak

    def step(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.step()

    def zero_grad(self) -> None:
        for parameter in self._parameters.values():
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """Every state tensor under "optimizer.quantity.parameter", for safetensors."""
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        return {
            f"{kind}.{quantity}.{names[id(parameter)]}": value
            for kind, optimizer in self._optimizers.items()
            for parameter, state in optimizer.state.items()
            for quantity, value in state.items()
        }

    def load_state_tensors(self, tensors: Mapping[str, Tensor], *, complete: bool = False) -> None:
        """Take back what `state_tensors` gave. Raises ValueError naming a tensor that belongs nowhere or is not as it
        was, and, where `complete`, a parameter without its state; nothing is taken then.
        """
        expected = {
            f"{kind}.{quantity}.{name}": (kind, quantity, parameter)
            for group in self.groups
            for name in group.names
            for kind, parameter in [(group.kind, self._parameters[name])]
            for quantity in QUANTITIES[kind]
        }
        for key, value in tensors.items():
            if key not in expected:
                raise ValueError(f"the optimizer state {key!r} belongs to no parameter of this run")
            _, quantity, parameter = expected[key]
            shape, dtype = ((), torch.float32) if quantity == "step" else (tuple(parameter.shape), parameter.dtype)
            if (tuple(value.shape), value.dtype) != (shape, dtype):
                raise ValueError(
                    f"the optimizer state {key!r} is {value.dtype} and has shape {tuple(value.shape)}, "
                    f"its parameter {tuple(parameter.shape)}; it should be {dtype} of shape {shape}"
                )
        lacking = sorted(expected.keys() - tensors.keys())
        if lacking and (complete or len(lacking) < len(expected)):
            raise ValueError(f"the optimizer state {lacking[0]!r} is missing ({len(lacking)} in all)")
        for optimizer in self._optimizers.values():
            optimizer.state.clear()
        for key, value in tensors.items():
            kind, quantity, parameter = expected[key]
            self._optimizers[kind].state[parameter][quantity] = value.to(parameter.device)


def _stacked_rows(model: GPT, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Row counts of the linear maps stacked in one matrix: queries, keys and values of each attention."""
    config = model.config
    d_head = config.d_head or config.d_model // config.n_heads
    queries, keys = config.n_heads * d_head, (config.n_key_value_heads or config.n_heads) * d_head
    return {name: (queries, keys, keys) for name in names if name.endswith("attn.w_qkv.weight")}
