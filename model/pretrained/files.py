"""What a file is before it is opened: a regular file that may be read, and of the kind that its name says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from model.checks import no_file


class PretrainedError(ValueError):
    """A model that cannot be read or written as asked; the sentence says which file, tensor or field, and why."""


MOST_JSON_BYTES = 256 * 1024 * 1024
"""A config, an index or a tokenizer is far smaller; what is larger is not parsed."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs.github.com/spec/", "a git-lfs pointer and not the file itself: run `git lfs pull`"),
    (b"\x1f\x8b", "compressed by gzip: unpack it first (gunzip)"),
    (b"BZh", "compressed by bzip2: unpack it first (bunzip2)"),
    (b"\xfd7zXZ\x00", "compressed by xz: unpack it first (unxz)"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first (unzstd)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"%PDF", "a PDF document: it holds no model"),
    (b"GGUF", "a GGUF file: give it a name that ends in .gguf"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras, TensorFlow): convert it with transformers first"),
    (b"\x93NUMPY", "an array of numpy: it holds no model"),
)
_TORCH = "a file of torch.save: give it a name that ends in .bin or .pt"
_JSON_NAMES = (".json", ".jsonl")


def require_regular(path: Path) -> None:
    """Raise PretrainedError where opening would hang or fail: a pipe, a device, a folder, no permission, nothing."""
    try:
        what = no_file(path)
        if what is not None:
            raise PretrainedError(f"{path} is {what}; a regular file is needed in its place.")
        with path.open("rb"):
            pass
    except OSError as error:
        raise PretrainedError(unreadable(path, error)) from None


def unreadable(path: Path, error: OSError) -> str:
    """Why a file cannot be opened, and what mends it."""
    if isinstance(error, PermissionError):
        return f"{path} may not be read by this user (permission denied): change its permissions (chmod u+r)."
    return f"{path} cannot be read: {error.strerror or error}."


def what_it_is(path: Path) -> str | None:
    """What the first bytes say a file is, with what mends it; None where they say nothing.

    It is asked about a file that is not, or does not open as, what its name says.
    """
    with path.open("rb") as file:
        start = file.read(1024)
    if not start:
        return "empty: download or copy it again"
    for magic, words in _MAGIC:
        if start.startswith(magic):
            return words
    if start[257:262] == b"ustar":
        return "a tar archive: unpack it first (tar -xf)"
    if start.startswith(b"PK\x03\x04"):
        return _TORCH if _is_torch_zip(path) else "a zip archive: unpack it first (unzip)"
    if re.match(rb"\x80[\x02-\x05]", start):
        return "a pickle (torch.save or Python's own): give it a name that ends in .bin or .pt"
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 100_000_000:
        return "a safetensors file: give it a name that ends in .safetensors"
    if re.match(rb"\s*<(!doctype\s+html|html|head|\?xml)", start.removeprefix(b"\xef\xbb\xbf"), re.IGNORECASE):
        return "a web page or an answer of a server, not the file: download the file itself"
    text = _as_text(start)
    if text is None:
        return None
    if text.lstrip()[:1] in ("{", "["):
        return "JSON text" if path.suffix in _JSON_NAMES else "JSON text and no weights: download the weights' file"
    return f"plain text, which begins {text.strip()[:30]!r}"


def _is_torch_zip(path: Path) -> bool:
    import zipfile

    try:
        with zipfile.ZipFile(path) as file:
            return any(name.endswith("data.pkl") for name in file.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return True  # cut short: as what it was made, most likely


def _as_text(start: bytes) -> str | None:
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # not only a character that the end of the piece cuts
            return None
        text = start[: error.start].decode("utf-8")
    return text if all(c.isprintable() or c in "\t\r\n\f\ufeff" for c in text) else None


def read_json(path: Path) -> Any:
    """A JSON file, or PretrainedError naming it: not to be read, too large, no JSON, nested deeper than Python goes."""
    require_regular(path)
    try:
        size = os.stat(path).st_size
        if size > MOST_JSON_BYTES:
            raise PretrainedError(f"{path} is {size / 1e6:,.0f} MB large: no JSON file of a model is.")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PretrainedError(unreadable(path, error)) from None
    except (RecursionError, MemoryError):
        raise PretrainedError(f"{path} is nested too deeply to be a model's JSON file.") from None
    except ValueError as error:  # no UTF-8, no JSON, a whole number of more digits than Python reads
        if isinstance(error, PretrainedError):
            raise
        what = what_it_is(path)
        what = "" if what is None or "JSON" in what or "plain text" in what else f"; it is {what}"
        raise PretrainedError(f"{path} is no JSON file that can be read: {error}{what}.") from None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise PretrainedError(f"{path} holds no JSON object, but {type(content).__name__}.")
    return content
