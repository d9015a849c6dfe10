"""What every analysis returns: a frozen object of named numpy arrays, also as a table and as strict JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas


class Result:
    """Base of the frozen result dataclasses. A subclass says in ``to_frame`` what one row of its table is."""

    @property
    def note(self) -> str:
        """A sentence on values that could not be had; "" where there is nothing to say."""
        return ""

    def to_frame(self) -> pandas.DataFrame:
        """The result as a table (pandas is imported here)."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Field name -> plain Python value. Arrays become nested lists; NaN and infinities become None."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        if self.note:
            values["note"] = self.note
        return {name: plain(value) for name, value in values.items() if value is not None}

    def to_json(self, *, indent: int | None = None) -> str:
        """``to_dict`` as strict JSON: a value that is not finite is null."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=indent)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: lists for arrays, None for what is not finite. Floats keep every digit."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return plain(value.tolist())
        return value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in value]
    return value


ALIKE = 1e-6
"""Two numbers this close, as a share of the larger, differ by rounding."""


def are_alike(one: float, other: float) -> bool:
    """Whether two values of a metric are equal up to rounding, or one is not a number: nothing is a share of that."""
    return not abs(one - other) > ALIKE * max(abs(one), abs(other))


def share(part: Any, one: float, other: float) -> Any:
    """A part, or an array of parts, of the difference one - other; NaN where they are alike."""
    return part * float("nan") if are_alike(one, other) else part / (one - other)


def alike_note(one: float, other: float) -> str:
    """What a result says where its two prompts are alike; "" where they are not."""
    if not are_alike(one, other):
        return ""
    return f"The prompts score {one:.6g} and {other:.6g}: there is no difference to take shares of."


def frame(columns: dict[str, Any]) -> pandas.DataFrame:
    """A table of equally long columns; whole-number columns whose -1 means "none" become nullable."""
    import pandas

    table = pandas.DataFrame(columns)
    for name in ("layer", "head", "neuron"):
        if name in table and len(table) and (table[name] < 0).any():
            table[name] = table[name].astype("Int64").mask(table[name] < 0)
    return table


def grid(*axes: int) -> list[np.ndarray]:
    """The flat index columns of an array of this shape, in its own (row-major) order."""
    return [index.ravel() for index in np.indices(axes)]
