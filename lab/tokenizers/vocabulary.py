"""Tokenizers that are a list of strings: characters, whole words, the symbols of a task.

A piece never depends on its neighbours (a word carries the space before it, as in GPT-2's vocabulary),
so texts can be decoded token by token while they are being generated, and " Mary" is one token.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from model.tokenizer import Piece, Tokenizer, Unknown, UnknownCharacters

UNKNOWN_WORD = "<unk>"
DOCUMENT_BREAK = "\n\n"


class VocabularyTokenizer(Tokenizer):
    """An ordered list of distinct, non-empty strings; an id is a place in the list."""

    unit: ClassVar[str] = "character"

    def __init__(self, vocabulary: Sequence[str], bos: str | None = None, eos: str | None = None) -> None:
        self.vocabulary = tuple(vocabulary)
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary)}
        if not self.vocabulary:
            raise ValueError(f"a {self.kind} tokenizer needs at least one {self.unit}; the text is empty")
        if len(self._ids) != len(self.vocabulary):
            twice = next(p for p, n in Counter(self.vocabulary).items() if n > 1)
            raise ValueError(f"the vocabulary lists {twice!r} twice; each piece needs one id")
        if "" in self._ids:
            raise ValueError("the vocabulary holds an empty string, which no text can be split into")
        for label, piece in (("bos", bos), ("eos", eos)):
            if piece is not None and piece not in self._ids:
                raise ValueError(f"{label} {piece!r} is not in the vocabulary")
        self.bos_id = None if bos is None else self._ids[bos]
        self.eos_id = None if eos is None else self._ids[eos]

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        return [self.vocabulary[i] for i in self.check_ids(ids)]

    def split(self, text: str) -> list[str]:
        """`text` cut into candidate pieces that join to it again; some may be unknown."""
        raise NotImplementedError

    @property
    def replacement_id(self) -> int:
        """The id that stands in for what is unknown under unknown='replace'."""
        for candidate in (UNKNOWN_WORD, "\N{REPLACEMENT CHARACTER}", "?", "_", " "):
            if candidate in self._ids:
                return self._ids[candidate]
        return 0

    def _encode(self, text: str, unknown: Unknown) -> list[int]:
        pieces = self.split(text)
        try:
            return [self._ids[p] for p in pieces]
        except KeyError:
            pass
        if unknown == "skip":
            return [self._ids[p] for p in pieces if p in self._ids]
        if unknown == "replace":
            stand_in = self.replacement_id
            return [self._ids.get(p, stand_in) for p in pieces]
        first: dict[str, int] = {}
        position = 0
        for piece in pieces:
            if piece not in self._ids:
                first.setdefault(piece, position)
            position += len(piece)
        raise UnknownCharacters(list(first), list(first.values()), self.unit)

    def id_of(self, piece: str) -> int:
        """The id of exactly this piece; ValueError when the vocabulary lacks it."""
        if piece not in self._ids:
            raise ValueError(f"{piece!r} is not one token of this {self.kind} tokenizer")
        return self._ids[piece]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "vocabulary": list(self.vocabulary),
            "bos": None if self.bos_id is None else self.vocabulary[self.bos_id],
            "eos": None if self.eos_id is None else self.vocabulary[self.eos_id],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VocabularyTokenizer:
        vocabulary = data.get("vocabulary")
        if not isinstance(vocabulary, list) or not all(isinstance(p, str) for p in vocabulary):
            raise ValueError(f"a {cls.kind} tokenizer needs 'vocabulary', a list of strings")
        for name in ("bos", "eos"):
            if not isinstance(data.get(name), str | None):
                raise ValueError(f"{name!r} of a {cls.kind} tokenizer is {data[name]!r}; it must be a string, or null")
        return cls(vocabulary, bos=data.get("bos"), eos=data.get("eos"))


class CharTokenizer(VocabularyTokenizer):
    """One id per character (Unicode code point), in code point order when trained."""

    kind = "char"

    def __init__(self, vocabulary: Sequence[str], bos: str | None = None, eos: str | None = None) -> None:
        super().__init__(vocabulary, bos, eos)
        long = [p for p in self.vocabulary if len(p) != 1]
        if long:
            raise ValueError(f"a char tokenizer's pieces are single characters, not {long[0]!r}")
        codes = np.array([ord(c) for c in self.vocabulary], dtype=np.uint32)
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]

    @classmethod
    def train(cls, text: str | Iterable[str]) -> CharTokenizer:
        """The distinct characters of `text`, or of its blocks, sorted."""
        return cls(sorted(set(text) if isinstance(text, str) else set().union(*map(set, text))))

    def split(self, text: str) -> list[str]:
        return list(text)

    def encode_array(self, text: str) -> np.ndarray:
        codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        if not np.array_equal(self._codes[at], codes):
            self.encode(text)  # raises, naming the characters
        return self._order[at].astype(self.dtype)


# A line break, a word, digit or mark with the space before it, loose white space: every character is matched.
_WORDS = re.compile(r"\n\n|\n|'s\b| ?[^\W\d_]+| ?\d| ?[^\w\s]| ?_|\s")


class WordTokenizer(VocabularyTokenizer):
    """Whole words and marks. The single space before a word belongs to its token: "Mary", " Mary".

    Digits are tokens of their own, "'s" is one, and "\\n\\n" separates documents (it is both bos and eos).
    An unknown word is an error that names it; `unknown='replace'` writes <unk>.
    """

    kind = "word"
    unit = "word"

    @classmethod
    def train(cls, text: str | Iterable[str], limit: int | None = None, extra: Iterable[str] = ()) -> WordTokenizer:
        """Every piece of `text`, or of its blocks (the `limit` most frequent), after <unk> and the document break.

        `extra` pieces are taken in whether or not the text has them. Ids go by falling frequency, ties
        by spelling.
        """
        counts: Counter[str] = Counter()
        for block in (text,) if isinstance(text, str) else text:
            counts.update(_WORDS.findall(block))
        counts.update(dict.fromkeys(extra, 0))
        for reserved in (UNKNOWN_WORD, DOCUMENT_BREAK):
            counts.pop(reserved, None)
        ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
        if limit is not None:
            if limit < 3:
                raise ValueError(f"a word vocabulary needs at least 3 entries, not {limit}")
            ranked = ranked[: limit - 2]
        return cls([UNKNOWN_WORD, DOCUMENT_BREAK, *ranked], bos=DOCUMENT_BREAK, eos=DOCUMENT_BREAK)

    @staticmethod
    def words(text: str) -> list[str]:
        """The words of a text, which join to it again."""
        return _WORDS.findall(text)

    def split(self, text: str) -> list[str]:
        return self.words(text)


class SymbolTokenizer(VocabularyTokenizer):
    """A fixed list of symbols written one after the other, longest match first: "17", "+", "45", "="."""

    kind = "symbol"
    unit = "symbol"

    def __init__(self, vocabulary: Sequence[str], bos: str | None = None, eos: str | None = None) -> None:
        super().__init__(vocabulary, bos, eos)
        longest_first = sorted(self.vocabulary, key=lambda s: (-len(s), s))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) + "|.", re.DOTALL)

    def split(self, text: str) -> list[str]:
        return self._pattern.findall(text)
