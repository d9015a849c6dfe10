"""Named tensors out of weight files, read one at a time, and the prefixes that wrappers leave on their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.pretrained.files import PretrainedError, require_regular, what_it_is
from model.pretrained.pickles import torch_file
from model.pretrained.sources import Source

WRAPPERS = ("module.", "_orig_mod.", "model.", "transformer.")
"""What DataParallel, torch.compile and a model around the decoder put before a tensor's name."""


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its shape and dtype without reading it, itself when ``read`` is called."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[], Tensor]


def stored_tensors(source: Source) -> dict[str, Stored]:
    """Every tensor of safetensors or .bin files by its name in them, in natural order.

    Raises PretrainedError for a file that is damaged, is something else, or disagrees with the index.
    """
    found: dict[str, Stored] = {}
    for path in source.weights:
        tensors = read_tensors(path)
        for name, tensor in tensors.items():
            if name in found:
                raise PretrainedError(f"{path} holds {name!r} a second time; another file of the model has it already.")
            if source.index is not None and source.index.get(name) != path.name:
                raise PretrainedError(f"{path} holds {name!r}, but the index puts it in {source.index.get(name)}.")
            found[name] = tensor
    absent = [name for name in source.index or () if name not in found]
    if absent:
        raise PretrainedError(f"{source.folder}: the index lists {min(absent, key=natural)!r}, which no file holds.")
    return {name: found[name] for name in sorted(found, key=natural)}


def read_tensors(path: Path) -> dict[str, Stored]:
    """The tensors of one file: safetensors, or of torch.save."""
    return _safetensors(path) if path.suffix == ".safetensors" else from_state_dict(torch_file(path), path)


def natural(name: str) -> list[tuple[int, int | str]]:
    """Sorts h.2 before h.10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]


_SAFETENSORS_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def _safetensors(path: Path) -> dict[str, Stored]:
    from safetensors import SafetensorError, safe_open

    require_regular(path)
    try:
        file = safe_open(path, framework="pt")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        kinds = {name: part.get_dtype() for name, part in slices.items()}
    except (SafetensorError, OSError, UnicodeError) as error:
        what = what_it_is(path)
        known = what is not None and not what.startswith("a safetensors file")
        reason = f"it is {what}" if known else f"{error}; download or copy it again"
        raise PretrainedError(f"{path} is no whole safetensors file: {reason}.") from None
    odd = next((name for name, kind in kinds.items() if kind not in _SAFETENSORS_DTYPES), None)
    if odd is not None:
        raise PretrainedError(f"{path}: {odd} is {kinds[odd]}: quantised weights are not read.")

    def reader(name: str) -> Callable[[], Tensor]:
        return lambda: file.get_tensor(name)

    return {
        name: Stored(tuple(part.get_shape()), _SAFETENSORS_DTYPES[kinds[name]], reader(name))
        for name, part in slices.items()
    }


def from_state_dict(state: Any, origin: Path | str) -> dict[str, Stored]:
    """The tensors of a state dict."""
    if not isinstance(state, Mapping) or not state:
        raise PretrainedError(f"{origin} holds no state dict of named tensors, but {type(state).__name__}.")
    wrong = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if wrong is not None:
        raise PretrainedError(
            f"{origin} holds {wrong!r}, which is no tensor but {type(state[wrong]).__name__}: it is no state dict."
        )

    for name, value in state.items():
        if value.layout != torch.strided or value.is_quantized or value.is_meta:
            kind = "quantised" if value.is_quantized else "without numbers" if value.is_meta else "sparse"
            raise PretrainedError(f"{origin}: {name} is {kind}; save plain tensors.")

    def reader(tensor: Tensor) -> Callable[[], Tensor]:
        return lambda: tensor

    return {
        str(name): Stored(tuple(tensor.shape), tensor.dtype, reader(tensor))
        for name, tensor in sorted(state.items(), key=lambda item: natural(str(item[0])))
    }


def without_prefixes(names: Iterable[str], head: str, origin: str) -> dict[str, str]:
    """Bare name -> name in the file, when every name carries the same prefix.

    head: the bare name of the unembedding, which may stand outside of the innermost wrapper (``lm_head.weight``
    beside ``transformer.wte.weight``). Raises PretrainedError naming the first tensor with another prefix.
    """
    bare: dict[str, str] = {}
    body: tuple[str, tuple[str, ...]] | None = None
    heads: list[tuple[str, tuple[str, ...]]] = []
    for name in names:
        rest, prefix = _split(name)
        if rest.rpartition(".")[0] == head.rpartition(".")[0]:
            heads.append((name, prefix))
        elif body is None:
            body = (name, prefix)
        elif prefix != body[1]:
            raise PretrainedError(_mixture(origin, name, prefix, *body))
        if rest in bare:
            raise PretrainedError(f"{origin}: {name!r} and {bare[rest]!r} are the same tensor under two names.")
        bare[rest] = name
    for name, prefix in heads:
        if body is not None and prefix not in (body[1], body[1][:-1]):
            raise PretrainedError(_mixture(origin, name, prefix, *body))
    return bare


def _split(name: str) -> tuple[str, tuple[str, ...]]:
    prefix: list[str] = []
    while wrapper := next((w for w in WRAPPERS if name.startswith(w)), None):
        prefix.append(wrapper)
        name = name[len(wrapper) :]
    return name, tuple(prefix)


def _mixture(origin: str, name: str, prefix: tuple[str, ...], other: str, others: tuple[str, ...]) -> str:
    first, second = ("".join(p) or "no prefix" for p in (prefix, others))
    return f"{origin} mixes spellings: {name!r} has {first}, but {other!r} has {second}."
