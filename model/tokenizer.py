"""What every tokenizer offers, trained here or brought along: text to ids and back, pieces, spans, a JSON form."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

Unknown = Literal["error", "skip", "replace"]
Piece = str | bytes

_SHOWN = 8  # unknown characters listed in a message; the exception carries all of them


class UnknownCharacters(ValueError):
    """The text holds something that cannot be encoded: the one error of ``Tokenizer.encode`` that a text causes.

    `characters` are the distinct ones in order of appearance, `positions` the place of each one's first
    appearance, counted in characters from 0; `unit` is what they are: character, word, symbol, name, part.
    """

    def __init__(
        self, characters: Sequence[str], positions: Sequence[int], unit: str = "character", reason: str = ""
    ) -> None:
        self.characters = tuple(characters)
        self.positions = tuple(positions)
        self.unit, self.reason = unit, reason
        super().__init__(self.sentence())

    def sentence(self, skip: str = "unknown='skip'", replace: str = "unknown='replace'") -> str:
        """What is wrong and what to do, with the spelling of the two choices where the reader stands; "" for none."""
        shown = [
            f"{repr(c) if self.unit == 'name' else _describe(c)} at position {p}"
            for c, p in zip(self.characters[:_SHOWN], self.positions[:_SHOWN], strict=True)
        ]
        hidden = len(self.characters) - len(shown)
        listed = ", ".join(shown) + (f" and {hidden} more" if hidden else "")
        plural = "" if len(self.characters) == 1 else "s"
        choices = "Leave them out"
        if skip:
            choices += f" ({skip}), put a known {self.unit} in their place ({replace})"
        engine = f"the tokenizer cannot read this text ({self.reason}): " if self.reason else ""
        return (
            f"{engine}the tokenizer does not know {len(self.characters)} {self.unit}{plural} of this text: {listed}. "
            f"{choices}, or use a tokenizer trained on a text that has them."
        )

    def __reduce__(self) -> tuple[Any, ...]:  # the default would call __init__ with the message
        return type(self), (self.characters, self.positions, self.unit, self.reason)


def _describe(piece: str) -> str:
    """A character as a person can find it: itself when visible, its code point always."""
    if len(piece) != 1:
        return repr(piece)
    code = f"U+{ord(piece):04X}"
    if "\ud800" <= piece <= "\udfff":
        return f"half of a surrogate pair {code}"
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

    def encode(self, text: str, unknown: Unknown = "error", *, bos: bool = False, eos: bool = False) -> list[int]:
        """Ids of `text`. What the vocabulary lacks raises UnknownCharacters, is left out, or is replaced.

        bos, eos: put the mark of a text's beginning before it, of its end after it; ValueError where the
        tokenizer has none. Nothing is added unless asked for.
        """
        check_unknown(unknown)
        before, after = self._mark("bos", bos), self._mark("eos", eos)
        return [*before, *self._encode(_without_surrogates(text, unknown), unknown), *after]

    @abstractmethod
    def _encode(self, text: str, unknown: Unknown) -> list[int]:
        """Ids of a text without halves of surrogate pairs."""

    def _mark(self, name: str, wanted: bool) -> list[int]:
        index = self.bos_id if name == "bos" else self.eos_id
        if wanted and index is None:
            what = "beginning" if name == "bos" else "end"
            raise ValueError(f"this tokenizer has no mark of a text's {what}, so there is none to add ({name}=True)")
        return [index] if wanted and index is not None else []

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        """What each id adds to a text of these ids, str or (byte-level) bytes; joined they are the decoded text."""

    def piece(self, index: int) -> Piece:
        """What an id stands for in the middle of a text."""
        return self.pieces([index])[0]

    def added(self, index: int, before: Sequence[int]) -> Piece | None:
        """What an id adds to the text of the ids `before` it; None where only the whole text, decoded, can tell."""
        return self.pieces([index])[0]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description from which the same tokenizer is rebuilt."""

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

    @cached_property
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


def _without_surrogates(text: str, unknown: Unknown) -> str:
    """`text` itself, unless it holds halves of surrogate pairs: those are no characters and no vocabulary has them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        halves = {c: p for p, c in reversed(list(enumerate(text))) if "\ud800" <= c <= "\udfff"}
        if unknown == "error":
            ordered = sorted(halves, key=halves.__getitem__)
            raise UnknownCharacters(ordered, [halves[c] for c in ordered]) from None
        return text.encode("utf-8", "ignore" if unknown == "skip" else "replace").decode("utf-8")
    return text


@cache
def byte_alphabet() -> tuple[str, ...]:
    """The printable character that GPT-2's files write for each byte 0 to 255.

    Printable Latin-1 bytes stand for themselves; the others take the characters from U+0100 on, in byte
    order (Radford et al. 2019, released code of GPT-2).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    stand_ins = iter(range(0x100, 0x200))
    return tuple(chr(b) if b in printable else chr(next(stand_ins)) for b in range(256))
