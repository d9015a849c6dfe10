"""Which optimizer moves what, Muon against torch's own, and the state on disk."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lab.training import TrainingConfig
from lab.training.muon import Muon, orthogonalize
from lab.training.optimizers import Optimizers, ParameterGroup, parameter_groups, require_partition
from model import GPT, GPTConfig

TINY: dict[str, Any] = dict(d_vocab=11, n_ctx=8, d_model=16, n_layers=2, n_heads=2)


def loss_of(model: GPT, seed: int = 0) -> torch.Tensor:
    tokens = torch.randint(0, 11, (3, 9), generator=torch.Generator().manual_seed(seed))
    return model(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:])


# --- groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "variant", [{}, {"gated_mlp": True, "normalization_type": "RMS", "qk_norm": True}, {"use_bias": False}]
)
def test_every_parameter_is_in_exactly_one_group(optimizer: str, tied: bool, variant: dict[str, Any]) -> None:
    model = GPT(GPTConfig(**TINY, tie_word_embeddings=tied, **variant))
    groups = parameter_groups(model, TrainingConfig(optimizer=optimizer, weight_decay=0.1))  # type: ignore[arg-type]
    parameters = dict(model.named_parameters())
    assert sorted(name for group in groups for name in group.names) == sorted(parameters)
    for group in groups:
        for name in group.names:
            matrix = parameters[name].ndim >= 2
            assert group.weight_decay == (0.1 if matrix else 0.0), name
            assert group.kind == ("muon" if optimizer == "muon" and matrix and name.startswith("blocks.") else "adamw")


def test_a_parameter_left_out_or_given_twice_is_told_by_name() -> None:
    group = ParameterGroup("adamw", 0.0, ("a", "b"))
    require_partition(["a", "b"], [group])
    with pytest.raises(ValueError, match=r"c \(0 times\)"):
        require_partition(["a", "b", "c"], [group])
    with pytest.raises(ValueError, match=r"a \(2 times\)"):
        require_partition(["a", "b"], [group, ParameterGroup("adamw", 0.1, ("a",))])
    with pytest.raises(ValueError, match="'b', which is no parameter"):
        require_partition(["a"], [group])


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_tied_matrix_moves_once_and_stays_tied(optimizer: str) -> None:
    model = GPT(GPTConfig(**TINY, tie_word_embeddings=True))
    optimizers = Optimizers(model, TrainingConfig(optimizer=optimizer))  # type: ignore[arg-type]
    before = model.embed.weight.detach().clone()
    loss_of(model).backward()
    optimizers.step()
    assert model.unembed.weight is model.embed.weight and not torch.equal(model.embed.weight, before)
    assert sum("embed.weight" in name for name in optimizers.state_tensors() if "exp_avg." in name) <= 2


# --- AdamW and Muon against torch ----------------------------------------------------------------------------


def test_adamw_steps_as_torch_does() -> None:
    config = TrainingConfig(lr=3e-3, weight_decay=0.1, betas=(0.9, 0.95))
    # no biases: a key bias has no gradient but rounding, which Adam would blow up
    model, reference = (GPT(GPTConfig(**TINY, use_bias=False)) for _ in range(2))
    ours = Optimizers(model, config)
    matrices = [p for p in reference.parameters() if p.ndim >= 2]
    vectors = [p for p in reference.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    for step in range(5):
        for network in (model, reference):
            loss_of(network, step).backward()
        ours.set_lr(0.5)
        for group in theirs.param_groups:
            group["lr"] = 0.5 * 3e-3
        ours.step(), theirs.step(), ours.zero_grad(), theirs.zero_grad()
    for (name, a), b in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5, msg=name)


def matrices() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(16, 16), (16, 16), (64, 16), (16, 64), (48, 16), (16, 5)]
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_muon_steps_as_torchs_muon_does(weight_decay: float) -> None:
    ours, theirs = matrices(), matrices()
    arguments: dict[str, Any] = dict(lr=0.02, weight_decay=weight_decay, momentum=0.95)
    a, b = Muon(ours, **arguments), torch.optim.Muon(theirs, **arguments)
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn(p.shape, generator=generator)
            q.grad = p.grad.clone()
        a.step(), b.step()
    for p, q, start in zip(ours, theirs, matrices(), strict=True):
        moved = (q - start).norm()
        assert (p - q).norm() <= 0.01 * moved, "the same up to the order of bf16 sums"


def test_stacked_maps_are_orthogonalised_apart() -> None:
    stacked = nn.Parameter(torch.randn(48, 16))
    parts = [nn.Parameter(part.clone()) for part in stacked.detach().split((16, 16, 16))]
    arguments: dict[str, Any] = dict(lr=0.02, weight_decay=0.0, momentum=0.95, compute_dtype=torch.float32)
    a = Muon([stacked], rows={stacked: (16, 16, 16)}, **arguments)
    b = Muon(parts, **arguments)
    stacked.grad = torch.randn(48, 16) * torch.tensor([1.0, 10.0, 100.0]).repeat_interleave(16)[:, None]
    for part, gradient in zip(parts, stacked.grad.split((16, 16, 16)), strict=True):
        part.grad = gradient.clone()
    a.step(), b.step()
    torch.testing.assert_close(stacked.detach(), torch.cat([p.detach() for p in parts]), atol=1e-6, rtol=0)


def test_queries_keys_and_values_are_stacked_as_the_config_says() -> None:
    model = GPT(GPTConfig(**{**TINY, "n_heads": 4}, n_key_value_heads=2))
    muon = Optimizers(model, TrainingConfig(optimizer="muon"))._optimizers["muon"]
    assert muon._rows[model.blocks[0].attn.w_qkv.weight] == (16, 8, 8)  # type: ignore[attr-defined]
    assert Optimizers(model, TrainingConfig(optimizer="muon", muon_split_qkv=False))._optimizers["muon"]._rows == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 16, 64), (1, 1, 8)])
def test_orthogonalize_leaves_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, _, vt = torch.linalg.svd(x, full_matrices=False)
    y = orthogonalize(x, torch.float32)
    values = torch.linalg.svdvals(y)
    assert values.min() > 0.3 and values.max() < 1.3
    assert torch.nn.functional.cosine_similarity(y.flatten(1), (u @ vt).flatten(1)).min() > 0.95
    assert torch.equal(orthogonalize(torch.zeros(shape)), torch.zeros(shape).bfloat16())


# --- learning rate and state ---------------------------------------------------------------------------------


def test_one_multiplier_sets_every_learning_rate() -> None:
    optimizers = Optimizers(GPT(GPTConfig(**TINY)), TrainingConfig(optimizer="muon", lr=4e-3, muon_lr=0.02))
    for multiplier in (0.5, 1.0, 0.0):
        optimizers.set_lr(multiplier)
        rates = {kind: [g["lr"] for g in o.param_groups] for kind, o in optimizers._optimizers.items()}
        assert rates == {"adamw": [multiplier * 4e-3] * 2, "muon": [multiplier * 0.02]}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_state_goes_to_tensors_and_back_bit_for_bit(optimizer: str) -> None:
    config = TrainingConfig(optimizer=optimizer)  # type: ignore[arg-type]
    model = GPT(GPTConfig(**TINY))
    optimizers = Optimizers(model, config)
    for step in range(3):
        loss_of(model, step).backward()
        optimizers.step(), optimizers.zero_grad()
    saved = {name: tensor.clone() for name, tensor in optimizers.state_tensors().items()}
    assert any(name.startswith(f"{optimizer}.") for name in saved)
    twin = GPT(GPTConfig(**TINY))
    twin.load_state_dict(model.state_dict())
    restored = Optimizers(twin, config)
    restored.load_state_tensors(saved)
    for network, moves in ((model, optimizers), (twin, restored)):
        loss_of(network, 9).backward()
        moves.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)


def test_foreign_state_is_refused_by_name() -> None:
    optimizers = Optimizers(GPT(GPTConfig(**TINY)), TrainingConfig())
    with pytest.raises(ValueError, match=r"blocks\.7\.ln1\.w' belongs to no parameter"):
        optimizers.load_state_tensors({"adamw.exp_avg.blocks.7.ln1.w": torch.zeros(16)})
    with pytest.raises(ValueError, match=r"has shape \(3,\), its parameter \(16,\)"):
        optimizers.load_state_tensors({"adamw.exp_avg.blocks.0.ln1.w": torch.zeros(3)})
