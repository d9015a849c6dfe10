"""Every tensor of a file has one place in the model, every place one tensor; whatever else is there is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import GPTConfig, nearest
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import Layout, Slot
from model.pretrained.tensors import Stored, natural, without_prefixes

_CAUSAL_MASK = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")
_FREQUENCIES = re.compile(r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")


@dataclass(frozen=True)
class Placed:
    """A tensor of the file by its name there and without prefixes, and where it goes."""

    name: str
    bare: str
    tensor: Stored
    slot: Slot


def account(stored: Mapping[str, Stored], layout: Layout, config: GPTConfig, origin: str) -> list[Placed]:
    """Pair the tensors with their places, or raise PretrainedError naming the first one that does not fit.

    Left out are only buffers that hold nothing learned, once they are seen to be that: causal masks of GPT-2
    (attn.bias, attn.masked_bias) and the rotary frequencies of early Llamas.
    """
    by_bare = without_prefixes(stored, layout.head, origin)
    bare = {name: stored[full] for name, full in by_bare.items()}
    for name in [name for name in bare if _CAUSAL_MASK.fullmatch(name)]:
        _require_causal_mask(f"{origin}: {by_bare[name]}", bare.pop(name))
    for name in [name for name in bare if _FREQUENCIES.fullmatch(name)]:
        _require_frequencies(f"{origin}: {by_bare[name]}", bare.pop(name), config)
    slots = layout.slots(config, {name: tensor.shape for name, tensor in bare.items()})
    tied_head = bare.pop(layout.head, None) if config.tie_word_embeddings else None
    unknown = [name for name in bare if name not in slots]
    if unknown:
        hint = nearest(unknown[0], slots)
        full = by_bare[unknown[0]]
        raise PretrainedError(f"{origin}: unknown tensor {full!r}{hint} ({len(unknown)} unknown in all)")
    missing = sorted((name for name in slots if name not in bare), key=natural)
    if missing:
        why = " (the embeddings are not tied)" if missing[0] == layout.head else ""
        raise PretrainedError(f"{origin}: tensor {missing[0]!r} is missing{why}; {len(missing)} are missing in all.")
    for name, slot in slots.items():
        tensor = bare[name]
        if tensor.shape != slot.shape:
            raise PretrainedError(
                f"{origin}: {by_bare[name]} has shape {list(tensor.shape)}, but the config makes it {list(slot.shape)}."
            )
        if not tensor.dtype.is_floating_point or tensor.dtype.itemsize == 1:
            raise PretrainedError(f"{origin}: {by_bare[name]} is {tensor.dtype}: quantised weights are not read.")
    if tied_head is not None:
        embedding = next(name for name, slot in slots.items() if slot.parameter == "embed.weight")
        if tied_head.shape != bare[embedding].shape or not torch.equal(tied_head.read(), bare[embedding].read()):
            raise PretrainedError(
                f"{origin}: {by_bare[layout.head]} and {by_bare[embedding]} disagree, but the config ties them; "
                "set tie_word_embeddings to false in config.json to load both."
            )
    return [Placed(by_bare[name], name, bare[name], slot) for name, slot in slots.items()]


def _require_causal_mask(name: str, tensor: Stored) -> None:
    if name.endswith("masked_bias"):
        if len(tensor.shape) > 1 or sum(tensor.shape) > 1:
            raise PretrainedError(f"{name} has shape {list(tensor.shape)}: it is not GPT-2's scalar for masked scores.")
        return
    mask = tensor.read()
    square = mask.ndim >= 2 and mask.shape[-1] == mask.shape[-2] and mask.numel() == mask.shape[-1] ** 2
    if square:
        mask = mask.reshape(mask.shape[-2:]).bool()
    if not square or not torch.equal(mask, torch.ones_like(mask).tril()):
        raise PretrainedError(
            f"{name} {list(tensor.shape)} is not the causal mask of GPT-2: it would change the model."
        )


def _require_frequencies(name: str, tensor: Stored, config: GPTConfig) -> None:
    from model.positions import rotary_frequencies

    expected: Tensor | None = None
    if config.positional_embedding_type == "rotary":
        expected = rotary_frequencies(config)[0]
    given = tensor.read().float()
    # Stored in half precision by some; 2^-8 is bfloat16's step.
    tolerance = 1e-5 if tensor.dtype.itemsize >= 4 else 2**-8
    if expected is None or given.shape != expected.shape or not torch.allclose(given, expected, rtol=tolerance):
        raise PretrainedError(f"{name} holds other rotary frequencies than config.json describes.")
