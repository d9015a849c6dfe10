"""What torch.save wrote, read as weights and plain values only: nothing in a file is ever executed."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import torch

from model.pretrained.files import PretrainedError, require_regular, what_it_is

_SAFE = ("torch", "collections", "_codecs", "__builtin__", "builtins")
_STRINGS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE")


def torch_file(path: Path) -> Any:
    """What torch.save wrote. PretrainedError saying what the file is, or which key holds more than plain values."""
    require_regular(path)
    what = what_it_is(path)
    if what is not None and not what.startswith(("a file of torch.save", "a pickle")):
        raise PretrainedError(f"{path} is no file of torch.save: it is {what}.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        if "weights_only" not in str(error).lower():
            raise PretrainedError(f"{path} is damaged or no file of torch.save.") from None
        raise PretrainedError(f"{path} is not read: {_what_is_more(path)}.") from None
    except MemoryError:
        raise
    except Exception as error:  # damaged bytes end in whatever error they cause in torch
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "TorchScript" in str(error):
            reason = "it is a TorchScript archive, which holds code; save the model's state_dict() instead"
        raise PretrainedError(f"{path} is damaged or no file of torch.save: {reason}") from None


def _what_is_more(path: Path) -> str:
    """Which part of a file is more than weights and plain values, and how it is saved without."""
    plain = "it holds more than weights and plain values, and nothing in it is executed"
    name, key = _first_global(path)
    if name is None:
        return plain
    mend = "save its state_dict() alone"
    if name.startswith("numpy"):
        where = f"under {key!r} " if key else ""
        plain = f"it holds a number or array of numpy {where}({name}), and nothing in it is executed"
        mend = "save it again with float() or torch.tensor() around that, or without it"
    else:
        plain = f"{plain} ({name}{f', under {key!r}' if key else ''})"
    return f"{plain}; where you trust it, {mend}"


def _first_global(path: Path) -> tuple[str | None, str | None]:
    """(the first name that the pickle would import beyond torch's own, the string before it: the key it is under)."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
                with archive.open(name) as file:
                    return _search(file)
        with path.open("rb") as file:
            return _search(file)
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile, NotImplementedError):
        return None, None


def _search(file: IO[bytes]) -> tuple[str | None, str | None]:
    strings: list[str] = []
    for code, argument in _operations(file):
        if code in _STRINGS:
            strings = [*strings[-3:], argument]
        elif code in ("GLOBAL", "STACK_GLOBAL"):
            stacked = code == "STACK_GLOBAL"
            if stacked and len(strings) < 2:
                return None, None
            name = ".".join(strings[-2:]) if stacked else argument.replace(" ", ".")
            if not name.startswith(_SAFE):
                before = strings[:-2] if stacked else strings
                return name, before[-1] if before else None
            strings = []
    return None, None


def _operations(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """The operations of all pickles that follow each other in a file, none of them carried out."""
    for _ in range(8):
        for operation, argument, _ in pickletools.genops(file):
            yield operation.name, argument
