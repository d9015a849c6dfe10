"""What every tokenizer here offers: text to ids and back without loss, pieces, spans, a hash, a JSON form."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

Unknown = Literal["error", "skip", "replace"]
Piece = str | bytes

_SHOWN = 8  # unknown characters listed in a message; the exception carries all of them


class UnknownCharacters(ValueError):
    """The text holds characters (for word tokenizers: words) that the vocabulary lacks.

    `characters` are the distinct ones in order of appearance, `positions` the place of each one's first
    appearance, counted in characters from 0.
    """

    def __init__(self, characters: Sequence[str], positions: Sequence[int], unit: str = "character") -> None:
        self.characters = tuple(characters)
        self.positions = tuple(positions)
        self.unit = unit
        super().__init__(self._message())

    def _message(self) -> str:
        shown = [
            f"{_describe(c)} at position {p}"
            for c, p in zip(self.characters[:_SHOWN], self.positions[:_SHOWN], strict=True)
        ]
        hidden = len(self.characters) - len(shown)
        listed = ", ".join(shown) + (f" and {hidden} more" if hidden else "")
        plural = "" if len(self.characters) == 1 else "s"
        return (
            f"the tokenizer does not know {len(self.characters)} {self.unit}{plural} of this text: {listed}. "
            f"Leave them out (unknown='skip'), put a known {self.unit} in their place (unknown='replace'), "
            f"or train on a text that has them."
        )

    def __reduce__(self) -> tuple[Any, ...]:  # the default would call __init__ with the message
        return type(self), (self.characters, self.positions, self.unit)


def _describe(piece: str) -> str:
    """A character as a person can find it: itself when visible, its code point always."""
    if len(piece) != 1:
        return repr(piece)
    code = f"U+{ord(piece):04X}"
    return f"{piece!r} ({code} {unicodedata.name(piece, '').lower()})".replace(" )", ")")


def id_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """The narrowest dtype that holds every id below `vocab_size`; never one that would wrap."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


class Tokenizer(ABC):
    """Text to ids and back. `decode(encode(text)) == text` for every text the vocabulary covers."""

    kind: ClassVar[str]
    bos_id: int | None = None
    eos_id: int | None = None

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number of ids; every id is in range(vocab_size)."""

    @abstractmethod
    def encode(self, text: str, unknown: Unknown = "error") -> list[int]:
        """Ids of `text`. What the vocabulary lacks raises UnknownCharacters, is left out, or is replaced."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        """What each id stands for, str or (byte-level) bytes; joined they are the decoded text."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description from which `load_tokenizer` rebuilds the same tokenizer."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any]) -> Tokenizer:
        """Rebuild what `to_dict` described; ValueError when the description is damaged."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`. Bytes that form no whole UTF-8 character become U+FFFD."""
        pieces = self.pieces(ids)
        if pieces and isinstance(pieces[0], bytes):
            return b"".join(pieces).decode("utf-8", errors="replace")  # type: ignore[arg-type]
        return "".join(pieces)  # type: ignore[arg-type]

    def encode_array(self, text: str) -> np.ndarray:
        """Ids of `text` as a numpy array [token] of `dtype`; the form a corpus is kept in."""
        return np.asarray(self.encode(text), dtype=self.dtype)

    def spans(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ids, starts, ends), each [token]: token i covers the characters text[starts[i]:ends[i]].

        A byte-level token that holds part of a character covers the whole character, so neighbours
        inside one character overlap.
        """
        ids = self.encode_array(text)
        pieces = self.pieces(ids.tolist())
        lengths = np.fromiter((len(p) for p in pieces), dtype=np.int64, count=len(pieces))
        ends = np.cumsum(lengths)
        starts = ends - lengths
        if pieces and isinstance(pieces[0], bytes):
            raw = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
            char_of_byte = np.cumsum((raw & 0xC0) != 0x80) - 1  # a continuation byte starts no character
            starts, ends = char_of_byte[starts], char_of_byte[ends - 1] + 1
        return ids, starts, ends

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """numpy dtype that holds the largest id."""
        return id_dtype(self.vocab_size)

    @property
    def sha256(self) -> str:
        """Hash of everything that decides what an id means; equal hashes, equal tokenizers."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the JSON form to `path`."""
        Path(path).write_text(json.dumps(self.to_dict(), ensure_ascii=True) + "\n", encoding="ascii")

    def check_ids(self, ids: Iterable[int]) -> list[int]:
        """`ids` as a list of int, or ValueError naming the first one that is no id of this vocabulary."""
        checked = [int(i) for i in ids]
        for position, i in enumerate(checked):
            if not 0 <= i < self.vocab_size:
                raise ValueError(
                    f"token id {i} at position {position} is outside this tokenizer's "
                    f"vocabulary of {self.vocab_size} (ids 0 to {self.vocab_size - 1})"
                )
        return checked

    def __len__(self) -> int:
        return self.vocab_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"


def check_unknown(unknown: str) -> None:
    """ValueError unless `unknown` is one of the three ways to treat what the vocabulary lacks."""
    if unknown not in ("error", "skip", "replace"):
        raise ValueError(f"unknown must be 'error', 'skip' or 'replace', not {unknown!r}")
