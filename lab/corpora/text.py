"""A text of any length as UTF-8 bytes, cut into its two splits without being copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lab.tokenizers import text_blocks

_BLOCK = 1 << 22  # bytes counted at a time
_CONTINUES = 0x80  # the two highest bits of a byte that goes on with a character


@dataclass(frozen=True, eq=False)
class Utf8Text:
    """A text as UTF-8; `start` is the byte with which the validation split begins."""

    raw: bytes | bytearray
    characters: int
    start: int

    @classmethod
    def of(cls, raw: bytes | bytearray) -> Utf8Text:
        """`raw`, valid UTF-8, with the first 90 % of its characters for training."""
        characters = count_characters(raw)
        return cls(raw, characters, byte_of_character(raw, int(characters * 0.9)))

    def split(self, split: str) -> memoryview:
        """The bytes of "train" or "validation"; a view."""
        view = memoryview(self.raw)
        return view[: self.start] if split == "train" else view[self.start :]

    def blocks(self) -> Iterator[str]:
        """The whole text, in blocks that end where words end."""
        return text_blocks(self.raw)


def count_characters(raw: bytes | bytearray | memoryview) -> int:
    """Characters of valid UTF-8."""
    return sum(int(_begins(raw, at).sum()) for at in range(0, len(raw), _BLOCK))


def byte_of_character(raw: bytes | bytearray | memoryview, index: int) -> int:
    """Where character number `index` begins; the length of `raw` where there are no more."""
    return bytes_of_characters(raw, [index])[0]


def bytes_of_characters(raw: bytes | bytearray | memoryview, indices: list[int]) -> list[int]:
    """Where each of these characters, in rising order, begins; the length of `raw` beyond its last."""
    found: list[int] = []
    seen = 0
    for at in range(0, len(raw), _BLOCK):
        begins = np.flatnonzero(_begins(raw, at))
        while len(found) < len(indices) and indices[len(found)] < seen + len(begins):
            found.append(at + int(begins[indices[len(found)] - seen]))
        seen += len(begins)
    return found + [len(raw)] * (len(indices) - len(found))


def _begins(raw: bytes | bytearray | memoryview, at: int) -> np.ndarray:
    block = np.frombuffer(raw, np.uint8, min(_BLOCK, len(raw) - at), at)
    return (block & 0xC0) != _CONTINUES
