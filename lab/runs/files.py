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

from model.checks import no_file


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


def require_regular(path: Path) -> None:
    """Look before opening: raise OSError where something lies at `path` that is no file.

    To open a named pipe would wait for ever, and a device never ends. FileNotFoundError where there is nothing.
    """
    what = no_file(path)
    if what is not None:
        raise OSError(f"{path} is {what}, where a file should be")


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


def reason(problem: BaseException) -> str:
    """What an exception says, with the file first where it is about one: "x.json: Permission denied"."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{os.fspath(problem.filename)}: {problem.strerror}" if problem.filename else problem.strerror
    return " ".join(str(problem).split()) or type(problem).__name__


def written(path: Path) -> tuple[int, ...] | None:
    """A key that changes whenever a file does, its permissions too; None where there is none. Raises OSError."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def read_bytes(path: Path) -> bytes:
    """What a file holds. Raises OSError naming it, also for a pipe or a device, which would never end."""
    require_regular(path)
    return path.read_bytes()


def parse_json(data: bytes, path: Path) -> Any:
    """The value in the bytes of a JSON file. Raises ValueError naming the file, whatever is wrong with them."""
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is not valid JSON: it is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises FileNotFoundError, OSError for what is no file, or ValueError naming the file when it is not an object.
    """
    value = parse_json(read_bytes(path), path)
    if not isinstance(value, dict):
        raise ValueError(f"{path} should hold a JSON object, but holds a {type(value).__name__}")
    return value


KINDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
"""What a value of a JSON file may be, in words."""
LARGEST = 2**63 - 1


def has_kind(value: Any, kind: type) -> bool:
    """Whether a value of a JSON file is of a kind: int, float (whole numbers too), str, bool, list or dict.

    Numbers are finite and at most 2^63 - 1 in size: nothing that is counted here is larger.
    """
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
            return False
        return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST
    return isinstance(value, kind)


def typed(data: Any, path: Path, name: str, kind: type, *, needed: bool = False) -> Any:
    """`data[name]` of a JSON object, checked: of the kind named, or None where it is absent or null.

    Raises ValueError naming file, field and value; with `needed` for an absent one too.
    """
    value = data.get(name) if isinstance(data, dict) else None
    if value is None and not needed:
        return None
    if not has_kind(value, kind):
        shown = "missing" if value is None else repr(value)[:60]
        raise ValueError(f"{path} is damaged: {name} is {shown}; it must be {KINDS[kind]}")
    return value


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Add one flushed line of strict JSON to a line file. Raises OSError naming `path`.

    A last line that a crash cut short is closed first, so that it does not swallow this one.
    """
    line = (to_json(record) + "\n").encode()
    if path.exists():
        require_regular(path)
    try:
        with path.open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}, while writing", str(path)) from error


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole JSON object of a line file, in order; a line cut short by a crash is passed over."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return
    for raw in data.split(b"\n"):
        try:
            record = parse_json(raw, path)
        except ValueError:
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
