"""What values of a config may be: numbers that float32 and torch can take, and the nearest right spelling of a name."""

from __future__ import annotations

import difflib
from typing import Any

MOST_WIDTH = 2**31 - 1  # of any dimension
MOST_WHOLE = 2**63 - 1  # the largest whole number that torch takes


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any, most: float = 3e38) -> bool:
    """Whether it is a number that float32 holds, the precision that models are run in; NaN is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -most <= value <= most


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
