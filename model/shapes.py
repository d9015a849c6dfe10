"""What passes through a GPT, step by step, with its shape: from token ids to the loss. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from model.config import GPTConfig
from model.formula import Formula, format_table

SYMBOL_MEANING = {
    "B": "batch",
    "N": "positions of the window",
    "L": "n_layers",
    "V": "d_vocab",
    "T": "n_ctx",
    "d": "d_model",
    "H": "n_heads",
    "G": "n_key_value_heads",
    "h": "d_head",
    "m": "d_mlp",
}


def check_window(config: GPTConfig, batch: int, pos: int | None) -> int:
    """How many positions to account for: ``pos``, or all of n_ctx. ValueError for an impossible window."""
    if pos is None:
        pos = config.n_ctx
    if not 1 <= pos <= config.n_ctx:
        raise ValueError(f"pos is {pos}; it must be between 1 and n_ctx {config.n_ctx}.")
    if batch < 1:
        raise ValueError(f"batch is {batch}; it must be at least 1.")
    return pos


def symbols(config: GPTConfig, batch: int = 1, pos: int | None = None) -> dict[str, int]:
    """The value of every symbol a formula may use (``SYMBOL_MEANING`` says what each stands for)."""
    return {
        "B": batch,
        "N": check_window(config, batch, pos),
        "L": config.n_layers,
        "V": config.d_vocab,
        "T": config.n_ctx,
        "d": config.d_model,
        "H": config.n_heads,
        "G": config.n_key_value_heads,
        "h": config.d_head,
        "m": config.d_mlp,
    }


@dataclass(frozen=True)
class Widths:
    """The widths of a block as formulas, written through d_model wherever they are whole multiples of it.

    d model · z all query heads together · kv all key heads together · mlp hidden units · h one head
    """

    d: Formula
    z: Formula
    kv: Formula
    mlp: Formula
    h: Formula


def widths(config: GPTConfig) -> Widths:
    """How wide each stage of a block is, as formulas."""
    values = symbols(config)
    d, h = Formula.of("d"), Formula.of("h")
    z = d if values["H"] * values["h"] == values["d"] else Formula.of("H") * h
    kv = z if values["G"] == values["H"] else Formula.of("G") * h
    mlp = Formula.of("m") if values["m"] % values["d"] else values["m"] // values["d"] * d
    return Widths(d, z, kv, mlp, h)


@dataclass(frozen=True)
class ShapeRow:
    """One step of the forward pass.

    shape: of the result; note: how it is made; hook: where to read it in the model ("" where it has none).
    """

    step: str
    shape: tuple[int, ...]
    symbolic: str
    note: str
    hook: str = ""


@dataclass(frozen=True)
class ShapeFlow:
    """The steps from tokens to loss, one block in full. Iterates over its rows and prints as a table."""

    rows: tuple[ShapeRow, ...]
    title: str

    def __iter__(self) -> Iterator[ShapeRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> ShapeRow:
        return self.rows[index]

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row a step."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def __str__(self) -> str:
        lines = [(r.step, list(r.shape), r.symbolic, r.note) for r in self.rows]
        return f"{self.title}\n{format_table(('step', 'shape', 'symbols', 'how'), lines)}"


class _Flow:
    """Collects rows; a shape is written in symbols and evaluated."""

    def __init__(self, config: GPTConfig, batch: int, pos: int | None):
        self.config = config
        self.symbols = symbols(config, batch, pos)
        self.widths = widths(config)
        self.rows: list[ShapeRow] = []

    def add(self, step: str, dims: list[str | Formula], note: str, hook: str = "") -> None:
        formulas = [Formula.of(dim) if isinstance(dim, str) else dim for dim in dims]
        shape = tuple(formula.value(self.symbols) for formula in formulas)
        self.rows.append(ShapeRow(step, shape, f"[{', '.join(map(str, formulas))}]", note, hook))


def shape_flow(config: GPTConfig, batch: int = 1, pos: int | None = None) -> ShapeFlow:
    """The shape of everything from token ids to loss for ``batch`` windows of ``pos`` tokens (default n_ctx).

    Raises ValueError when ``pos`` is outside 1..n_ctx or ``batch`` below 1.
    """
    flow = _Flow(config, batch, pos)
    stream: list[str | Formula] = ["B", "N", flow.widths.d]
    flow.add("tokens", ["B", "N"], "token ids")
    flow.add("embed", stream, "look up W_E [V, d]: a row per token", "hook_embed")
    if config.positional_embedding_type in ("standard", "sinusoidal"):
        how = "learned W_pos [T, d]" if config.positional_embedding_type == "standard" else "sines and cosines"
        flow.add("pos_embed", stream, f"{how}: a row per position, alike in the batch", "hook_pos_embed")
        start = "embed + pos_embed"
    else:
        start = "embed; positions enter in the attention, if at all"
    flow.add("resid_pre", stream, start, "blocks.0.hook_resid_pre")
    _attention(flow, stream)
    _mlp(flow, stream)
    if config.n_layers > 1:
        flow.add("... blocks", stream, f"the same in each of the {config.n_layers} blocks", "")
    if config.norm_placement != "post":
        flow.add("ln_final", stream, "final norm", "")
    flow.add("logits", ["B", "N", "V"], f"W_U [d, V]{', W_E transposed' if config.tie_word_embeddings else ''}")
    flow.add("loss", ["B", "N"], "-log softmax(logits)[next token]; the mean over all is the loss")
    n = flow.symbols
    legend = ", ".join(f"{symbol} {n[symbol]}" for symbol in "BNdHV")
    return ShapeFlow(tuple(flow.rows), f"{legend} ({', '.join(f'{s} {SYMBOL_MEANING[s]}' for s in 'BNdHV')})")


def _norm(flow: _Flow, stream: list[str | Formula], index: int, note: str, suffix: str = "") -> None:
    flow.add(f"ln{index}{suffix}", stream, note, f"blocks.0.ln{index}{suffix}.hook_normalized")


def _attention(flow: _Flow, stream: list[str | Formula]) -> None:
    config, w = flow.config, flow.widths
    placement = config.norm_placement
    if placement != "post":
        _norm(flow, stream, 1, "norm over d, for each position alone")
    attn = "blocks.0.attn"
    grouped = w.kv != w.z
    groups, heads = ("G", "n_key_value_heads") if grouped else ("H", "heads")
    flow.add("qkv", ["B", "N", w.z + 2 * w.kv], "one product with W_Q, W_K, W_V side by side")
    flow.add("q", ["B", "N", "H", w.h], "split into heads", f"{attn}.hook_q")
    flow.add("k", ["B", "N", groups, w.h], f"split into {heads}", f"{attn}.hook_k")
    flow.add("v", ["B", "N", groups, w.h], f"split into {heads}", f"{attn}.hook_v")
    if config.positional_embedding_type == "rotary":
        flow.add("rot_q", ["B", "N", "H", w.h], "turned by an angle that grows with position", f"{attn}.hook_rot_q")
        flow.add(
            "rot_k",
            ["B", "N", groups, w.h],
            "turned by an angle that grows with position",
            f"{attn}.hook_rot_k",
        )
    bias = " + ALiBi bias" if config.positional_embedding_type == "alibi" else ""
    window = f" and older than {config.attention_window} tokens" if config.attention_window else ""
    scores = f"q k^T / sqrt(h){bias}, -inf above the diagonal{window}"
    flow.add("scores", ["B", "H", "N", "N"], scores, f"{attn}.hook_attn_scores")
    flow.add("pattern", ["B", "H", "N", "N"], "softmax over keys: each row sums to 1", f"{attn}.hook_pattern")
    flow.add("z", ["B", "N", "H", w.h], "pattern v: values averaged by attention", f"{attn}.hook_z")
    flow.add("concat", ["B", "N", w.z], "heads side by side")
    if placement == "sandwich":
        flow.add("attn W_O", stream, "concat W_O")
        _norm(flow, stream, 1, "norm of what attention says", "_post")
        flow.add("attn_out", stream, "what is added to the stream", "blocks.0.hook_attn_out")
    else:
        flow.add("attn_out", stream, "concat W_O", "blocks.0.hook_attn_out")
    after = "norm(resid_pre + attn_out)" if placement == "post" else "resid_pre + attn_out"
    flow.add("resid_mid", stream, after, "blocks.0.hook_resid_mid")


def _mlp(flow: _Flow, stream: list[str | Formula]) -> None:
    config, w = flow.config, flow.widths
    placement = config.norm_placement
    hidden: list[str | Formula] = ["B", "N", w.mlp]
    if placement != "post":
        _norm(flow, stream, 2, "norm over d, for each position alone")
    if config.gated_mlp:
        flow.add("mlp pre", hidden, "W_gate", "blocks.0.mlp.hook_pre")
        flow.add("mlp pre_linear", hidden, "W_in", "blocks.0.mlp.hook_pre_linear")
        flow.add("mlp post", hidden, f"{config.act_fn}(pre) x pre_linear", "blocks.0.mlp.hook_post")
    else:
        flow.add("mlp pre", hidden, "W_in", "blocks.0.mlp.hook_pre")
        flow.add("mlp post", hidden, f"{config.act_fn}(pre)", "blocks.0.mlp.hook_post")
    if placement == "sandwich":
        flow.add("mlp W_out", stream, "post W_out")
        _norm(flow, stream, 2, "norm of what the MLP says", "_post")
        flow.add("mlp_out", stream, "what is added to the stream", "blocks.0.hook_mlp_out")
    else:
        flow.add("mlp_out", stream, "post W_out: back to d", "blocks.0.hook_mlp_out")
    after = "norm(resid_mid + mlp_out)" if placement == "post" else "resid_mid + mlp_out"
    flow.add("resid_post", stream, after, "blocks.0.hook_resid_post")
