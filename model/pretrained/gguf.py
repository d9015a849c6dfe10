"""GGUF files, read with the gguf package: quantised weights come out in float32, as they act."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.pretrained.configs import Read
from model.pretrained.files import PretrainedError, require_regular, what_it_is
from model.pretrained.gguf_keys import ROPE_FACTORS, read_keys
from model.pretrained.sources import Source
from model.pretrained.tensors import Stored, natural

_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_OTHER_DTYPES = {f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)} | {"F64": torch.float64}


@dataclass(frozen=True)
class Content:
    """What a GGUF file holds, all parts of it: its keys as they stand, its tensors by their names."""

    path: Path
    keys: Mapping[str, Any]
    tensors: Mapping[str, Any]


def read_gguf(source: Source) -> tuple[Read, dict[str, Stored], Callable[[], Any]]:
    """(config and layout, tensors, how to get the tokenizer) of a .gguf file, or of one that was split."""
    path = source.weights[0]
    content = read_content(path)
    path = content.path
    tensors = dict(content.tensors)
    shapes = {name: tuple(map(int, reversed(tensor.shape))) for name, tensor in tensors.items()}
    rope = tensors.pop(ROPE_FACTORS, None)
    factors = None if rope is None else tuple(map(float, _numbers(rope, path).flatten().tolist()))
    config, architecture = read_keys(content.keys, shapes, factors, str(path))
    stored = {}
    for name in sorted(tensors, key=natural):
        heads = {"q": config.n_heads, "k": config.n_key_value_heads}
        turned = re.fullmatch(r"blk\.\d+\.attn_([qk])\.(weight|bias)", name) if architecture.permuted else None
        stored[name] = Stored(
            shapes[name],
            _OTHER_DTYPES.get(tensors[name].tensor_type.name, torch.float32),
            _reader(tensors[name], path, heads[turned[1]] if turned else None),
        )
    return Read(config, config, architecture.gguf_layout()), stored, lambda: _tokenizer(path, content.keys)


def read_content(path: Path) -> Content:
    """The keys and tensors of a file; where it is one part of several, of all of them."""
    first = _read(path)
    split = _PART.fullmatch(path.name)
    count = _whole(first.keys.get("split.count", 1))
    if count == 1 and (split is None or int(split[3]) == 1):
        return first
    if split is None or count != int(split[3]):
        number = _whole(first.keys.get("split.no", 0)) + 1
        raise PretrainedError(
            f"{path} is part {number} of {count} of a split model, but its name does not say so: put all parts in one "
            f"folder under the names they were made with (x-{number:05d}-of-{count:05d}.gguf), or join them with "
            "llama-gguf-split --merge."
        )
    names = [f"{split[1]}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    absent = [name for name in names if not (path.parent / name).is_file()]
    if absent:
        raise PretrainedError(
            f"{path.parent / absent[0]} is missing: {path.name} is one of {count} parts of a split model, and all of "
            "them are needed in one folder."
        )
    return _joined([_read(path.parent / name) for name in names])


def _joined(parts: list[Content]) -> Content:
    keys: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for number, part in enumerate(parts):
        if part.keys.get("split.no") != number or part.keys.get("split.count") != len(parts):
            raise PretrainedError(
                f"{part.path} says that it is part {part.keys.get('split.no')!r} (from 0) of "
                f"{part.keys.get('split.count')!r}, but its name says another: it was renamed or is of another model."
            )
        for name, value in part.keys.items():
            if not name.startswith("split.") and keys.setdefault(name, value) != value:
                raise PretrainedError(f"{part.path}: the key {name!r} is {value!r}, but {keys[name]!r} elsewhere.")
        twice = next((name for name in part.tensors if name in tensors), None)
        if twice is not None:
            raise PretrainedError(f"{part.path} holds {twice!r} a second time; another part has it already.")
        tensors |= part.tensors
    total = parts[0].keys.get("split.tensors.count", len(tensors))
    if total != len(tensors):
        raise PretrainedError(f"{parts[0].path} tells of {total} tensors in all parts, but they hold {len(tensors)}.")
    return Content(parts[0].path, keys, tensors)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _read(path: Path) -> Content:
    require_regular(path)
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        what = what_it_is(path)
        raise PretrainedError(f"{path} is no GGUF file{f'; it is {what}' if what else ''}.")
    if importlib.util.find_spec("gguf") is None:
        raise PretrainedError(f"{path}: GGUF files are read with the gguf package; pip install 'residlab[gguf]'.")
    import gguf

    try:
        reader = gguf.GGUFReader(path)
        # Long lists of a tokenizer are read with it, not here.
        keys = {
            name: True if name.startswith("tokenizer.") else field.contents()
            for name, field in reader.fields.items()
            if not name.startswith("GGUF.")
        }
    except Exception as error:  # damaged bytes end in whatever error they cause in the reader
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PretrainedError(f"{path} is a damaged GGUF file, or cut short ({reason}): copy it again.") from None
    for name, value in keys.items():
        if isinstance(value, float) and value != value:
            raise PretrainedError(f"{path}: the key {name!r} is not a number.")
    return Content(path, keys, {tensor.name: tensor for tensor in reader.tensors})


def _numbers(tensor: Any, origin: Path) -> Tensor:
    import gguf.quants
    import numpy as np

    if tensor.tensor_type.name in _OTHER_DTYPES:
        return torch.from_numpy(np.array(tensor.data))
    try:
        return torch.from_numpy(np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    except (NotImplementedError, ValueError) as error:
        raise PretrainedError(f"{origin}: {tensor.name} is {tensor.tensor_type.name}: {error}") from None


def _reader(tensor: Any, origin: Path, heads: int | None) -> Callable[[], Tensor]:
    def read() -> Tensor:
        numbers = _numbers(tensor, origin)
        if heads is None:
            return numbers
        # llama.cpp turns neighbours (2i, 2i + 1); here pair i is (i, i + d_head / 2)
        return numbers.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(numbers.shape)

    return read


def _tokenizer(path: Path, keys: Mapping[str, Any]) -> Any:
    if "tokenizer.ggml.tokens" not in keys:
        return None
    import transformers

    from model.pretrained.tokenizer import PretrainedTokenizer

    try:
        theirs = transformers.AutoTokenizer.from_pretrained(
            str(path.parent), gguf_file=path.name, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # what transformers and its engine raise for a damaged list has no type of its own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PretrainedError(f"{path}: its tokenizer cannot be read: {reason}") from None
    engine = getattr(theirs, "backend_tokenizer", None)
    if engine is None:
        raise PretrainedError(f"{path} holds a tokenizer that the tokenizers package does not know.")
    return PretrainedTokenizer(engine, theirs.bos_token_id, theirs.eos_token_id)
