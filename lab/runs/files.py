"""Files that survive a crash: atomic replacement, strict JSON, and line files that tolerate a half-written
end.

A reader never sees half a JSON file: the text is written beside the target, flushed to the disk, and renamed
over it. JSON here is strict: a number that is not finite is written as null, because bare `NaN` is not JSON
and no other program reads it.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def strict(value: Any) -> Any:
    """`value` with non-finite numbers turned into None, and numpy values, tuples and paths made plain."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [strict(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # a numpy array or scalar, or a tensor
        return strict(value.tolist())
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON text of `value` (see `strict`); non-ASCII characters stay readable."""
    return json.dumps(strict(value), allow_nan=False, ensure_ascii=False, indent=indent)


def sync_directory(folder: Path) -> None:
    """Make a rename or a new name inside `folder` durable.

    A no-op where directories cannot be opened (Windows).
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except (PermissionError, IsADirectoryError):  # pragma: no cover - Windows
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush a file that somebody else wrote (safetensors, say) to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def write_text(path: Path, text: str, *, durable: bool = True, exclusive: bool = False) -> None:
    """Replace `path` by `text` in one step; a reader sees the old text or the new one, never a part.

    durable:   flush file and folder to the disk before returning (off for heartbeats, which only the living
    read).
    exclusive: fail with FileExistsError where `path` exists already, also when two processes race.
    Raises OSError naming `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if exclusive:
            os.link(temporary, path)  # unlike a rename, a link refuses to replace
        else:
            os.replace(temporary, path)
        if durable:
            sync_directory(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}, while writing", str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, durable: bool = True, exclusive: bool = False) -> None:
    """`write_text` of the strict, indented JSON of `value`."""
    write_text(path, to_json(value, indent=2) + "\n", durable=durable, exclusive=exclusive)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises FileNotFoundError, or ValueError naming the file when it is not an object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} should hold a JSON object, but holds a {type(value).__name__}")
    return value


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Add one flushed line of strict JSON to a line file. Raises OSError naming `path`."""
    line = to_json(record) + "\n"
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line)
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}, while writing", str(path)) from error


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole JSON object of a line file, in order; a line cut short by a crash is passed over."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for raw in data.split(b"\n"):
        try:
            record = json.loads(raw.decode("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError):
            continue  # blank, or half-written by a process that was killed
        if isinstance(record, dict):
            yield record


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a line file ([] where there is none), without a half-written last line."""
    return list(_objects(path))


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrite a line file, atomically, with only the records `keep` accepts.

    Nothing happens where there is no file.
    """
    if not path.exists():
        return
    write_text(path, "".join(to_json(record) + "\n" for record in _objects(path) if keep(record)))
