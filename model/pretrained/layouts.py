"""Where each tensor of an architecture stands in our model: names, rows of the fused queries, keys and values,
and whether a matrix is kept [in, out] (GPT-2's Conv1D) or [out, in] (torch's Linear).

Which of the two is a property of the checkpoint as a whole, read off ``attn.c_attn`` alone: its shape, d x 3d, can
not be mistaken, while that of ``attn.c_proj``, d x d, says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from model.config import GPTConfig

HEAD = "lm_head.weight"
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Slot:
    """The place of one tensor of a file.

    parameter: its name in our model; rows: the part of it, None for all; shape: as it stands in the file;
    transposed: whether the file has it [in, out].
    """

    parameter: str
    shape: tuple[int, ...]
    rows: tuple[int, int] | None = None
    transposed: bool = False


@dataclass(frozen=True)
class Layout:
    """One architecture's names. ``build`` lists (bare name, slot) of a config, matrices as torch's Linear has them;
    ``conv1d`` says of the shapes in a file whether its matrices are the other way round; ``head`` is the unembedding's
    name."""

    build: Callable[[GPTConfig], Iterator[tuple[str, Slot]]]
    body: str
    conv1d: Callable[[Shapes], bool] = lambda shapes: False
    head: str = HEAD

    def slots(self, config: GPTConfig, shapes: Shapes | None = None) -> dict[str, Slot]:
        """Bare name -> slot. shapes: those of the file being read; without them, as transformers writes."""
        turned = self.conv1d(shapes or {})
        found = dict(self.build(config))
        if turned:
            found = {name: _turned(slot) if _is_inner_matrix(slot) else slot for name, slot in found.items()}
        if not config.tie_word_embeddings:
            found[self.head] = Slot("unembed.weight", (config.d_vocab, config.d_model))
        return found

    def full_name(self, bare: str) -> str:
        """As transformers writes it."""
        return bare if bare == self.head else self.body + bare


def _is_inner_matrix(slot: Slot) -> bool:
    return len(slot.shape) == 2 and slot.parameter.startswith("blocks.")


def _turned(slot: Slot) -> Slot:
    return replace(slot, shape=slot.shape[::-1], transposed=True)


def _linear(config: GPTConfig, name: str, ours: str, out: int, into: int, bias: bool) -> Iterator[tuple[str, Slot]]:
    yield f"{name}.weight", Slot(f"{ours}.weight", (out, into))
    if bias:
        yield f"{name}.bias", Slot(f"{ours}.bias", (out,))


def _norm(config: GPTConfig, name: str, ours: str, bias: bool) -> Iterator[tuple[str, Slot]]:
    yield f"{name}.weight", Slot(f"{ours}.w", (config.d_model,))
    if bias:
        yield f"{name}.bias", Slot(f"{ours}.b", (config.d_model,))


def gpt2_slots(config: GPTConfig) -> Iterator[tuple[str, Slot]]:
    """GPT-2's names, nanoGPT's and minGPT's too; biases where the config has them."""
    d, inner = config.d_model, config.d_mlp
    yield "wte.weight", Slot("embed.weight", (config.d_vocab, d))
    yield "wpe.weight", Slot("pos_embed.weight", (config.n_ctx, d))
    for layer in range(config.n_layers):
        theirs, ours = f"h.{layer}", f"blocks.{layer}"
        yield from _norm(config, f"{theirs}.ln_1", f"{ours}.ln1", config.use_bias)
        yield from _linear(config, f"{theirs}.attn.c_attn", f"{ours}.attn.w_qkv", 3 * d, d, config.qkv_has_bias)
        yield from _linear(config, f"{theirs}.attn.c_proj", f"{ours}.attn.w_o", d, d, config.attn_out_has_bias)
        yield from _norm(config, f"{theirs}.ln_2", f"{ours}.ln2", config.use_bias)
        yield from _linear(config, f"{theirs}.mlp.c_fc", f"{ours}.mlp.w_in", inner, d, config.mlp_has_bias)
        yield from _linear(config, f"{theirs}.mlp.c_proj", f"{ours}.mlp.w_out", d, inner, config.mlp_has_bias)
    yield from _norm(config, "ln_f", "ln_final", config.use_bias)


def gpt2_is_conv1d(shapes: Shapes) -> bool:
    """Conv1D unless the first c_attn stands as a Linear would have it."""
    shape = shapes.get("h.0.attn.c_attn.weight")
    return shape is None or len(shape) != 2 or shape[0] != 3 * shape[1]


def llama_slots(config: GPTConfig) -> Iterator[tuple[str, Slot]]:
    """Llama's names, and those of the models made like it: Mistral, Qwen2, Qwen3, Arcee, StableLM, Starcoder2."""
    d, heads = config.d_model, (config.n_heads, config.n_key_value_heads, config.n_key_value_heads)
    bias = config.normalization_type == "LN" and config.use_bias
    yield "embed_tokens.weight", Slot("embed.weight", (config.d_vocab, d))
    for layer in range(config.n_layers):
        theirs, ours = f"layers.{layer}", f"blocks.{layer}"
        yield from _norm(config, f"{theirs}.input_layernorm", f"{ours}.ln1", bias)
        start = 0
        for part, count in zip("qkv", heads, strict=True):
            rows = (start, start + count * config.d_head)
            for name, slot in _linear(
                config, f"{theirs}.self_attn.{part}_proj", f"{ours}.attn.w_qkv", rows[1] - start, d, config.qkv_has_bias
            ):
                yield name, replace(slot, rows=rows)
            start = rows[1]
        width = config.n_heads * config.d_head
        yield from _linear(config, f"{theirs}.self_attn.o_proj", f"{ours}.attn.w_o", d, width, config.attn_out_has_bias)
        if config.qk_norm:
            for part in "qk":
                yield f"{theirs}.self_attn.{part}_norm.weight", Slot(f"{ours}.attn.{part}_norm.w", (config.d_head,))
        yield from _norm(config, f"{theirs}.post_attention_layernorm", f"{ours}.ln2", bias)
        inner, has_bias = config.d_mlp, config.mlp_has_bias
        starcoder = config.normalization_type == "LN" and not config.gated_mlp
        up, down = ("c_fc", "c_proj") if starcoder else ("up_proj", "down_proj")
        if config.gated_mlp:
            yield from _linear(config, f"{theirs}.mlp.gate_proj", f"{ours}.mlp.w_gate", inner, d, has_bias)
        yield from _linear(config, f"{theirs}.mlp.{up}", f"{ours}.mlp.w_in", inner, d, has_bias)
        yield from _linear(config, f"{theirs}.mlp.{down}", f"{ours}.mlp.w_out", d, inner, has_bias)
    yield from _norm(config, "norm", "ln_final", bias)


GPT2 = Layout(gpt2_slots, "transformer.", gpt2_is_conv1d)
LLAMA = Layout(llama_slots, "model.")
