"""The sums a student does by hand: parameters, FLOPs and memory of a GPTConfig. Imports no torch.

Every number is computed from the config alone and agrees with the tensors of the model built from it; every
formula is a polynomial in the symbols of ``symbols(config)`` and evaluates to the count beside it. The shapes
that pass through the model are in ``model.shapes`` (``shape_flow``, also reachable from here).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model.config import GPTConfig
from model.formula import Formula, format_bytes, format_count, format_flops, format_table
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
class ParameterRow:
    """One parameter tensor: its name in ``named_parameters``, shape, count as a formula and as a number."""

    name: str
    shape: tuple[int, ...]
    formula: str
    count: int
    note: str = ""


@dataclass(frozen=True)
class ParameterLedger:
    """All parameter tensors of a config, in the model's order. Iterates over its rows and prints as a table.

    block, block_matrices: parameters of one block as a formula: all of them ("12 d^2 + 13 d" in GPT-2), and
    those of its matrices alone ("12 d^2").
    notes: what tying saves or untying costs, what computed positions save.
    """

    rows: tuple[ParameterRow, ...]
    block: str
    block_matrices: str
    total: int
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[ParameterRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> ParameterRow:
        return self.rows[index]

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row a tensor."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def __str__(self) -> str:
        lines = [(r.name, list(r.shape), r.formula, f"{r.count:,}", r.note) for r in self.rows]
        table = format_table(("parameter", "shape", "formula", "count", "note"), lines, right=(3,))
        return "\n".join(
            [
                table,
                f"total {self.total:,}",
                f"one block: {self.block}, of which matrices {self.block_matrices}",
                *self.notes,
            ]
        )


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by where they sit; the six parts add up to ``total``.

    head is 0 when the unembedding is tied, for then it *is* the token embedding.
    """

    total: int
    token_embedding: int
    position_embedding: int
    attention: int
    mlp: int
    norms: int
    head: int

    @property
    def embedding(self) -> int:
        """Token and position embeddings together."""
        return self.token_embedding + self.position_embedding

    @property
    def non_embedding(self) -> int:
        """Everything but token and position embeddings and an untied head: the N of scaling laws."""
        return self.total - self.embedding - self.head

    @property
    def non_position(self) -> int:
        """Everything but learned positions, the count nanoGPT prints; nothing is taken off twice."""
        return self.total - self.position_embedding


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


def count_parameters(config: GPTConfig | GPT) -> ParameterCount:
    """Count the parameters of a config, or of a model through its config, by where they sit."""
    config = _config(config)
    parts: dict[str, int] = dict.fromkeys(("embed", "pos_embed", "attn", "mlp", "norm", "unembed"), 0)
    for part, row in _rows(config):
        parts[part] += row.count
    return ParameterCount(
        total=sum(parts.values()),
        token_embedding=parts["embed"],
        position_embedding=parts["pos_embed"],
        attention=parts["attn"],
        mlp=parts["mlp"],
        norms=parts["norm"],
        head=parts["unembed"],
    )


def parameter_ledger(config: GPTConfig | GPT) -> ParameterLedger:
    """Every parameter tensor with its shape, its count as a formula, and the sums; prints as a table."""
    config = _config(config)
    rows = tuple(row for _, row in _rows(config))
    block = Formula.total(entry.formula for entry in _block(config))
    matrices = Formula.total(entry.formula for entry in _block(config) if len(entry.dims) == 2)
    values = symbols(config)
    head, positions = values["V"] * values["d"], values["T"] * values["d"]
    kind = config.positional_embedding_type
    notes = [
        f"tied: the unembedding is the token embedding; one of its own would add V d = {head:,}"
        if config.tie_word_embeddings
        else f"untied: the unembedding of its own costs V d = {head:,}",
        f"learned positions cost T d = {positions:,}"
        if kind == "standard"
        else f"positions are {kind}: learned ones would add T d = {positions:,}",
    ]
    return ParameterLedger(rows, str(block), str(matrices), sum(row.count for row in rows), tuple(notes))


def flops_per_token(config: GPTConfig | GPT, ctx: int | None = None) -> int:
    """Training FLOPs per token, forward and backward, by the 6 N + 12 L d T rule (PaLM appendix B, nanoGPT).

    N counts the weights that multiply every token: the matrices of the blocks and the head, tied or not; not
    the embedding look-up, biases or norms. T is ``ctx`` (default n_ctx), d the width of all heads together.
    Equals ``flops(config, pos=ctx).training / ctx``.
    """
    config = _config(config)
    ctx = check_window(config, 1, ctx)
    values = symbols(config)
    return 6 * _matmul_weights(config) + 12 * values["L"] * values["H"] * values["h"] * ctx


def flops(config: GPTConfig | GPT, batch: int = 1, pos: int | None = None) -> Flops:
    """FLOPs of each matrix product of one pass over ``batch`` windows of ``pos`` tokens (default n_ctx)."""
    config = _config(config)
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
    config = _config(config)
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}; known are {', '.join(PRECISIONS)}.")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer is {optimizer!r}; known are {', '.join(OPTIMIZERS)}.")
    values = symbols(config, batch, pos)
    stored, computed = PRECISIONS[precision]
    total = count_parameters(config).total
    block_matrices = sum(r.count for part, r in _rows(config) if part in ("attn", "mlp") and len(r.shape) == 2)
    moments = {"adamw": 2 * total, "muon": 2 * total - block_matrices, "sgd": 0, "none": 0}[optimizer]
    tokens = values["B"] * values["N"]
    return Memory(
        weights=total * stored,
        gradients=total * stored,
        optimizer=moments * stored,
        activations=tokens * _saved_per_token(config, stored, computed),
        kv_cache=2 * values["L"] * tokens * values["G"] * values["h"] * computed,
    )


def _config(source: GPTConfig | GPT) -> GPTConfig:
    return source if isinstance(source, GPTConfig) else source.config


@dataclass(frozen=True)
class _Entry:
    """A tensor before its symbols have values. part: embed, pos_embed, norm, attn, mlp or unembed."""

    part: str
    name: str
    dims: tuple[Formula, ...]
    note: str

    @property
    def formula(self) -> Formula:
        product = Formula.number(1)
        for dim in self.dims:
            product = product * dim
        return product


def _rows(config: GPTConfig) -> Iterator[tuple[str, ParameterRow]]:
    """Every tensor in the order of ``named_parameters``, with the part of the model it belongs to."""
    values = symbols(config)
    v, t, d = (Formula.of(symbol) for symbol in "VTd")
    tied = "also the unembedding" if config.tie_word_embeddings else ""
    entries = [_Entry("embed", "embed.weight", (v, d), tied)]
    if config.positional_embedding_type == "standard":
        entries.append(_Entry("pos_embed", "pos_embed.weight", (t, d), "learned positions"))
    for layer in range(config.n_layers):
        entries += [_Entry(e.part, f"blocks.{layer}.{e.name}", e.dims, e.note) for e in _block(config)]
    if config.norm_placement != "post":
        entries += _norm(config, "ln_final")
    if not config.tie_word_embeddings:
        entries.append(_Entry("unembed", "unembed.weight", (v, d), "untied"))
    for entry in entries:
        shape = tuple(dim.value(values) for dim in entry.dims)
        formula = entry.formula
        yield entry.part, ParameterRow(entry.name, shape, str(formula), formula.value(values), entry.note)


def _block(config: GPTConfig) -> list[_Entry]:
    """The tensors of one block, names relative to it."""
    w = widths(config)
    entries = _norm(config, "ln1")
    entries += _linear("attn.w_qkv", w.z + 2 * w.kv, w.d, "W_Q, W_K, W_V", config.qkv_has_bias)
    entries += _linear("attn.w_o", w.d, w.z, "W_O", config.attn_out_has_bias)
    if config.qk_norm:
        entries += [_Entry("norm", f"attn.{n}_norm.w", (w.h,), "gain, the same for all heads") for n in "qk"]
    entries += _norm(config, "ln2")
    entries += _linear("mlp.w_in", w.mlp, w.d, "W_in", config.mlp_has_bias)
    entries += _linear("mlp.w_out", w.d, w.mlp, "W_out", config.mlp_has_bias)
    if config.gated_mlp:
        entries += _linear("mlp.w_gate", w.mlp, w.d, "W_gate", config.mlp_has_bias)
    if config.norm_placement == "sandwich":
        entries += _norm(config, "ln1_post")
        entries += _norm(config, "ln2_post")
    return entries


def _norm(config: GPTConfig, name: str) -> list[_Entry]:
    """A gain and, for a LayerNorm of a config with biases, a bias."""
    d = Formula.of("d")
    entries = [_Entry("norm", f"{name}.w", (d,), "gain")]
    if config.normalization_type == "LN" and config.use_bias:
        entries.append(_Entry("norm", f"{name}.b", (d,), "bias"))
    return entries


def _linear(name: str, out: Formula, into: Formula, note: str, has_bias: bool) -> list[_Entry]:
    """A matrix [out, in] and, where there is one, its bias [out]; ``name`` starts with the part."""
    part = name.split(".")[0]
    entries = [_Entry(part, f"{name}.weight", (out, into), note)]
    if has_bias:
        entries.append(_Entry(part, f"{name}.bias", (out,), "bias"))
    return entries


def _matmul_weights(config: GPTConfig) -> int:
    """Weights every token is multiplied by: the blocks' matrices and the head, tied or not."""
    matrices = sum(r.count for part, r in _rows(config) if part in ("attn", "mlp") and len(r.shape) == 2)
    return matrices + config.d_vocab * config.d_model


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
