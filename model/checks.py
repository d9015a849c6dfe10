"""What values may be: whole numbers of any library, numbers that float32 holds, a name's nearest spelling, a file."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterable
from operator import index
from pathlib import Path
from typing import Any

MOST_WHOLE = 2**63 - 1  # the largest whole number that torch takes


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any, most: float = 3e38) -> bool:
    """Whether it is a number that float32 holds, the precision that models are run in, or a whole one that torch takes.

    NaN is none.
    """
    if is_int(value):
        return abs(value) <= min(most, MOST_WHOLE)
    return isinstance(value, float) and -most <= value <= most


def is_above_0(value: Any, most: float = 3e38) -> bool:
    return is_number(value, most) and value >= 1e-38


def short(value: Any) -> str:
    """A value as a sentence shows it: a number of thousands of digits is not written out."""
    if is_int(value) and abs(value) > 10**30:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def nearest(name: str, known: Any) -> str:
    """The end of an error's sentence: ``"; did you mean 'x'?"``, or what is known when nothing is near."""
    names = sorted(map(str, known))
    by_lower = {known.lower(): known for known in reversed(names)}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    if len(names) > 12:
        return f"; there are {len(names)}, such as {', '.join(names[:3])}."
    return f"; known are {', '.join(names)}."


def as_whole(value: Any) -> int | None:
    """The whole number that a value is, or None where it is none. True and False are none, nor are arrays."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or getattr(value, "ndim", 0) != 0 or "bool" in str(getattr(value, "dtype", "")):
        return None
    try:
        return index(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def whole(value: Any, name: str, least: int | None = None) -> int:
    """A whole number as Python's int. ValueError for anything else, or one below ``least``."""
    number = as_whole(value)
    if number is None or (least is not None and number < least):
        limit = "" if least is None else f" of at least {least}"
        raise ValueError(f"{name} is {short(value)}; it must be a whole number{limit}.")
    return number


def wholes(values: Any, name: str) -> list[int]:
    """One whole number or several, as a list. ValueError for anything else."""
    number = as_whole(values)
    if number is not None:
        return [number]
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{name} is {short(values)}; it must be a whole number or several.")
    return [whole(value, name) for value in values]


def plain(value: Any) -> Any:
    """A number of numpy's or torch's as Python's own, which JSON can hold; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def no_file(path: Path) -> str | None:
    """What lies at a path where it is no regular file ("a named pipe"): to open that would wait, or never end.

    None for a file. Raises OSError where there is nothing, or nothing may be seen.
    """
    mode = path.stat().st_mode
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
    if stat.S_ISREG(mode):
        return None
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")
