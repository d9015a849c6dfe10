"""The sums a student does by hand: parameters, FLOPs and memory of a GPTConfig. Imports no torch.

Every number is computed from the config alone and agrees with the tensors of the model built from it; every
formula is a polynomial in the symbols of ``symbols(config)`` and evaluates to the count beside it. FLOPs and memory
are counted here, parameters in ``model.ledger``, shapes in ``model.shapes``; all of it is reachable from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.config import GPTConfig
from model.formula import Formula, format_bytes, format_count, format_flops, format_table
from model.ledger import (
    ParameterCount,
    ParameterLedger,
    ParameterRow,
    block_matrices,
    config_of,
    count_parameters,
    matmul_weights,
    parameter_ledger,
)
from model.shapes import ShapeFlow, ShapeRow, check_window, shape_flow, symbols, widths

if TYPE_CHECKING:
    from model.gpt import GPT

__all__ = [
    "Flops",
    "Formula",
    "MatmulRow",
    "Memory",
    "ParameterCount",
    "ParameterLedger",
    "ParameterRow",
    "ShapeFlow",
    "ShapeRow",
    "count_parameters",
    "flops",
    "flops_per_token",
    "format_bytes",
    "format_count",
    "format_flops",
    "memory",
    "parameter_ledger",
    "shape_flow",
    "symbols",
]

OPTIMIZERS = ("adamw", "muon", "sgd", "none")
PRECISIONS = {"fp64": (8, 8), "fp32": (4, 4), "bf16": (4, 2)}
"""Bytes of a stored weight and of an activation. bf16 is mixed: weights and moments stay in fp32."""


@dataclass(frozen=True)
class MatmulRow:
    """One matrix product of the forward pass. times: how often it occurs (once a block, or once)."""

    name: str
    formula: str
    times: int
    flops: int


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of the matrix products of one pass; a multiply-add counts as two.

    Norms, activations, softmax and the embedding look-up are not counted, as is the custom (Kaplan et al.
    2020, arXiv 2001.08361, section 2.1). Scores are counted for the whole square; a kernel that skips the
    masked half does less.
    """

    rows: tuple[MatmulRow, ...]
    tokens: int

    def __iter__(self) -> Iterator[MatmulRow]:
        return iter(self.rows)

    @property
    def forward(self) -> int:
        return sum(row.flops for row in self.rows)

    @property
    def backward(self) -> int:
        """Each product has two in the backward pass: one for its input's gradient, one for its weight's."""
        return 2 * self.forward

    @property
    def training(self) -> int:
        return self.forward + self.backward

    def __str__(self) -> str:
        lines = [(r.name, f"{r.times} x", r.formula, format_flops(r.flops)) for r in self.rows]
        table = format_table(("product", "times", "formula", "FLOPs in all"), lines, right=(1, 3))
        parts = f"forward {format_flops(self.forward)} · forward and backward {format_flops(self.training)}"
        return f"{table}\n{parts} · per token {format_flops(self.training / self.tokens)}"


@dataclass(frozen=True)
class Memory:
    """Bytes a model needs. Weights, gradients, optimizer and KV cache are exact; activations are an estimate.

    activations: what autograd keeps of one training step on the fast path.
    kv_cache: keys and values of ``pos`` positions for ``batch`` sequences.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    kv_cache: int

    @property
    def training(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations

    @property
    def generation(self) -> int:
        return self.weights + self.kv_cache

    def __str__(self) -> str:
        lines = [(name, format_bytes(value)) for name, value in vars(self).items()]
        lines += [
            ("training step", format_bytes(self.training)),
            ("generation", format_bytes(self.generation)),
        ]
        return format_table(("what", "size"), lines, right=(1,))


def flops_per_token(config: GPTConfig | GPT, ctx: int | None = None) -> int:
    """Training FLOPs per token, forward and backward, by the 6 N + 12 L d T rule (PaLM appendix B, nanoGPT).

    N counts the weights that multiply every token: the matrices of the blocks and the head, tied or not; not
    the embedding look-up, biases or norms. T is ``ctx`` (default n_ctx), d the width of all heads together.
    Equals ``flops(config, pos=ctx).training / ctx``.
    """
    config = config_of(config)
    ctx = check_window(config, 1, ctx)
    values = symbols(config)
    return 6 * matmul_weights(config) + 12 * values["L"] * values["H"] * values["h"] * ctx


def flops(config: GPTConfig | GPT, batch: int = 1, pos: int | None = None) -> Flops:
    """FLOPs of each matrix product of one pass over ``batch`` windows of ``pos`` tokens (default n_ctx)."""
    config = config_of(config)
    values = symbols(config, batch, pos)
    w, layers = widths(config), config.n_layers
    tokens = Formula.of("B") * Formula.of("N")
    square = tokens * Formula.of("N") * w.z
    products = [
        ("x W_Q, W_K, W_V", layers, tokens * w.d * (w.z + 2 * w.kv)),
        ("scores q k^T", layers, square),
        ("pattern v", layers, square),
        ("z W_O", layers, tokens * w.z * w.d),
        ("x W_in", layers, tokens * w.d * w.mlp),
        *([("x W_gate", layers, tokens * w.d * w.mlp)] if config.gated_mlp else []),
        ("post W_out", layers, tokens * w.mlp * w.d),
        ("x W_U", 1, tokens * w.d * Formula.of("V")),
    ]
    rows = [MatmulRow(n, str(2 * f), times, 2 * times * f.value(values)) for n, times, f in products]
    return Flops(tuple(rows), tokens.value(values))


def memory(
    config: GPTConfig | GPT,
    batch: int = 1,
    pos: int | None = None,
    precision: str = "fp32",
    optimizer: str = "adamw",
) -> Memory:
    """Bytes for training on ``batch`` windows of ``pos`` tokens, and for a KV cache that long.

    precision: fp32, bf16 (mixed: fp32 weights and moments, bf16 activations and cache) or fp64.
    optimizer: adamw (two moments a weight), muon (one for the blocks' matrices, two for the rest), sgd, none.
    """
    config = config_of(config)
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}; known are {', '.join(PRECISIONS)}.")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer is {optimizer!r}; known are {', '.join(OPTIMIZERS)}.")
    values = symbols(config, batch, pos)
    stored, computed = PRECISIONS[precision]
    total = count_parameters(config).total
    moments = {"adamw": 2 * total, "muon": 2 * total - block_matrices(config), "sgd": 0, "none": 0}[optimizer]
    tokens = values["B"] * values["N"]
    return Memory(
        weights=total * stored,
        gradients=total * stored,
        optimizer=moments * stored,
        activations=tokens * _saved_per_token(config, stored, computed),
        kv_cache=2 * values["L"] * tokens * values["G"] * values["h"] * computed,
    )


def _saved_per_token(config: GPTConfig, stored: int, computed: int) -> int:
    """Bytes autograd keeps for one token on the fast path; the loss keeps its log-probabilities in fp32."""
    values = symbols(config)
    d, z, kv, m = (values[s] for s in "dHGm")
    z, kv = z * values["h"], kv * values["h"]
    norms = 4 if config.norm_placement == "sandwich" else 2
    rotated = z + kv if config.positional_embedding_type == "rotary" else 0
    qk_normed = z + kv if config.qk_norm else 0
    # the norms' inputs; the inputs of W_qkv and W_in; q, k, v and z; pre and post of the MLP
    block = norms * d + 2 * d + 2 * z + 2 * kv + rotated + qk_normed + (4 if config.gated_mlp else 2) * m
    return values["L"] * block * computed + 2 * d * computed + values["V"] * (stored + computed)
