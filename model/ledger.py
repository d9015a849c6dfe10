"""Every parameter tensor of a GPT: where it sits, its shape, its count as a formula and as a number. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from model.config import GPTConfig
from model.formula import Formula, format_table
from model.shapes import symbols, widths

if TYPE_CHECKING:
    from model.gpt import GPT


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


def count_parameters(config: GPTConfig | GPT) -> ParameterCount:
    """Count the parameters of a config, or of a model through its config, by where they sit."""
    config = config_of(config)
    parts: dict[str, int] = dict.fromkeys(("embed", "pos_embed", "attn", "mlp", "norm", "unembed"), 0)
    values = symbols(config)
    first, block, last = _entries(config)
    for entry in (*first, *last):
        parts[entry.part] += entry.formula.value(values)
    for entry in block:
        parts[entry.part] += config.n_layers * entry.formula.value(values)
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
    config = config_of(config)
    rows = tuple(_rows(config))
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


def config_of(source: GPTConfig | GPT) -> GPTConfig:
    """A config, or a model's."""
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


def _rows(config: GPTConfig) -> Iterator[ParameterRow]:
    """Every tensor in the order of ``named_parameters``."""
    values = symbols(config)

    def row(entry: _Entry) -> ParameterRow:
        shape = tuple(dim.value(values) for dim in entry.dims)
        return ParameterRow(entry.name, shape, str(entry.formula), entry.formula.value(values), entry.note)

    first, block, last = (list(map(row, entries)) for entries in _entries(config))
    yield from first
    for layer in range(config.n_layers):
        yield from (replace(of_block, name=f"blocks.{layer}.{of_block.name}") for of_block in block)
    yield from last


def _entries(config: GPTConfig) -> tuple[list[_Entry], list[_Entry], list[_Entry]]:
    """The tensors before the blocks, those of one block, those after: all blocks are alike."""
    v, t, d = (Formula.of(symbol) for symbol in "VTd")
    tied = "also the unembedding" if config.tie_word_embeddings else ""
    entries = [_Entry("embed", "embed.weight", (v, d), tied)]
    if config.positional_embedding_type == "standard":
        entries.append(_Entry("pos_embed", "pos_embed.weight", (t, d), "learned positions"))
    last = _norm(config, "ln_final") if config.norm_placement != "post" else []
    if not config.tie_word_embeddings:
        last.append(_Entry("unembed", "unembed.weight", (v, d), "untied"))
    return entries, _block(config), last


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


def block_matrices(config: GPTConfig) -> int:
    """Weights of the matrices of all blocks."""
    values = symbols(config)
    return config.n_layers * sum(e.formula.value(values) for e in _block(config) if len(e.dims) == 2)


def matmul_weights(config: GPTConfig) -> int:
    """Weights every token is multiplied by: the blocks' matrices and the head, tied or not."""
    return block_matrices(config) + config.d_vocab * config.d_model
