"""Token ids as people have them, tensors, arrays and lists of any whole numbers, made into what torch looks up."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.checks import as_whole


def as_ids(values: Any, what: str = "Token ids") -> Tensor:
    """Whole numbers of any type and shape as a long tensor; a tensor of longs is returned as it is.

    values: a tensor, an array, a number, or lists of such. ValueError for numbers that are not whole, true and false,
    rows of unequal length, and numbers that do not fit into 64 bits. Their range is not looked at.
    """
    if isinstance(values, Tensor) and values.dtype == torch.long:
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        values = values.astype(np.int64)  # torch knows no other byte order, and warns of arrays it may not write
    if not isinstance(values, Tensor):
        values = _tensor(values if isinstance(values, np.ndarray) else _plain(values, what), what)
    if values.numel() and (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool):
        raise ValueError(f"{what} must be whole numbers, not {values.dtype}.")
    return values.long()


def is_row(value: Any) -> bool:
    """Whether a value is one row of ids."""
    return isinstance(value, (list, tuple)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 1)


def _plain(values: Any, what: str) -> Any:
    """Nested lists of Python's own ints."""
    if type(values) is int:
        return values
    if isinstance(values, (Tensor, np.ndarray)) and values.ndim:
        return as_ids(values, what).tolist()
    if isinstance(values, (list, tuple, range)):
        return [_plain(value, what) for value in values]
    number = as_whole(values)
    if number is None:
        raise ValueError(f"{what} must be whole numbers; got {values!r:.80}.")
    return number


def _tensor(values: Any, what: str) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what} must be whole numbers, as many in each row; got {values!r:.80}.") from error
