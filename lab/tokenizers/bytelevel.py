"""Tokenizers over UTF-8 bytes: plain bytes, byte-pair encoding trained here, GPT-2's from its files.

Only half of a surrogate pair, which is no character, is unknown to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.tokenizers.blocks import text_blocks
from model.tokenizer import Piece, Tokenizer, Unknown, byte_alphabet

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

END_OF_TEXT = "<|endoftext|>"
LONGEST_RUN = 256
LARGEST_VOCABULARY = 1_000_000
# GPT-2's pattern, its runs bounded
_BOUNDED = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}{1,LONGEST}| ?\p{N}{1,LONGEST}| ?[^\s\p{L}\p{N}]{1,LONGEST}"
    r"|\s{1,LONGEST}(?!\S)|\s{1,LONGEST}"
).replace("LONGEST", str(LONGEST_RUN))


class ByteTokenizer(Tokenizer):
    """One id per UTF-8 byte, 0 to 255."""

    kind = "byte"

    @property
    def vocab_size(self) -> int:
        return 256

    def _encode(self, text: str, unknown: Unknown) -> list[int]:
        return list(text.encode("utf-8"))

    def encode_array(self, text: str) -> np.ndarray:
        try:
            return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(self.dtype)
        except UnicodeEncodeError:
            return super().encode_array(text)  # raises, naming the characters

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        return [bytes((i,)) for i in self.check_ids(ids)]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ByteTokenizer:
        return cls()


class BPETokenizer(Tokenizer):
    """Byte-pair encoding over UTF-8 bytes with GPT-2's pre-tokenization.

    `vocabulary` and `merges` are written in the byte alphabet above, as in GPT-2's vocab.json and
    merges.txt. `end_of_text`, when given, is a vocabulary entry that no merge makes.
    """

    kind = "bpe"

    def __init__(
        self,
        vocabulary: dict[str, int],
        merges: Iterable[tuple[str, str]],
        end_of_text: str | None = None,
    ) -> None:
        self.vocabulary = dict(vocabulary)
        self.merges = tuple((a, b) for a, b in merges)
        self.end_of_text = end_of_text
        if not all(isinstance(piece, str) for piece in self.vocabulary):
            raise ValueError("the vocabulary's pieces must be strings")
        if {*self.vocabulary.values()} != {*range(len(self.vocabulary))}:
            raise ValueError(f"the vocabulary's ids must be 0 to {len(self.vocabulary) - 1}, each once")
        byte_of = {c: b for b, c in enumerate(byte_alphabet())}
        missing = [c for c in byte_of if c not in self.vocabulary]
        if missing:
            raise ValueError(f"the vocabulary lacks {len(missing)} of the 256 bytes, the first {missing[0]!r}")
        for pair in self.merges:
            absent = next((p for p in (*pair, "".join(map(str, pair))) if p not in self.vocabulary), None)
            if absent is not None:
                raise ValueError(f"the vocabulary lacks {absent!r}, which the merge {list(pair)} needs")
        self._bytes: list[bytes] = [b""] * len(self.vocabulary)
        for piece, i in self.vocabulary.items():
            if piece == end_of_text:
                self._bytes[i] = piece.encode("utf-8")
                continue
            try:
                self._bytes[i] = bytes(byte_of[c] for c in piece)
            except KeyError:
                raise ValueError(f"vocabulary entry {piece!r} is not written in GPT-2's byte alphabet") from None
        if end_of_text is not None:
            if end_of_text not in self.vocabulary:
                raise ValueError(f"end-of-text piece {end_of_text!r} is not in the vocabulary")
            self.bos_id = self.eos_id = self.vocabulary[end_of_text]
        self._engine: Engine | None = None

    @classmethod
    def train(cls, text: str | Iterable[str], vocab_size: int) -> BPETokenizer:
        """Learn `vocab_size` - 256 merges from `text`, or from its blocks; fewer where it offers no more pairs.

        Of a run of more than LONGEST_RUN letters, digits, marks or spaces with nothing between them (Chinese without
        punctuation, DNA, a line of dashes), pieces of that length are learned from: the work would grow with the
        square of a run. Texts without such runs lose nothing by it, and encoding never cuts.
        """
        if not 256 <= vocab_size <= LARGEST_VOCABULARY:
            raise ValueError(
                f"a byte-level BPE has at least its 256 bytes and at most {LARGEST_VOCABULARY:,} entries, "
                f"not {vocab_size}"
            )
        blocks = iter(_blocks(text) if isinstance(text, str) else text)
        first = next(blocks, "")
        if not first:
            raise ValueError("byte-pair encoding cannot be trained on an empty text")
        from tokenizers import Regex, models, pre_tokenizers, trainers
        from tokenizers import Tokenizer as Engine

        engine = Engine(models.BPE())
        engine.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_BOUNDED), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, initial_alphabet=list(byte_alphabet()), show_progress=False
        )
        engine.train_from_iterator(chain((first,), blocks), trainer)
        learned = json.loads(engine.to_str())["model"]
        merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in learned["merges"]]
        return cls(learned["vocab"], merges)

    @classmethod
    def from_gpt2_files(cls, folder: str | Path) -> BPETokenizer:
        """GPT-2's tokenizer from a folder with vocab.json and merges.txt."""
        folder = Path(folder).expanduser()
        vocab, merges = folder / "vocab.json", folder / "merges.txt"
        absent = [p.name for p in (vocab, merges) if not p.is_file()]
        if absent:
            raise ValueError(f"{folder} has no {' and no '.join(absent)}; GPT-2's tokenizer needs both files")
        from model.pretrained.tokenizer_export import read_gpt2_files

        vocabulary, pairs = read_gpt2_files(folder)
        try:
            return cls(vocabulary, pairs, END_OF_TEXT if END_OF_TEXT in vocabulary else None)
        except ValueError as error:
            raise ValueError(f"{folder}: vocab.json and merges.txt are no tokenizer of GPT-2's kind: {error}") from None

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def engine(self) -> Engine:
        """The compiled encoder, made at first use."""
        if self._engine is None:
            from tokenizers import AddedToken, models, pre_tokenizers
            from tokenizers import Tokenizer as Engine

            engine = Engine(models.BPE(vocab=self.vocabulary, merges=list(self.merges)))
            engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            if self.end_of_text is not None:
                engine.add_special_tokens([AddedToken(self.end_of_text, normalized=False)])
            self._engine = engine
        return self._engine

    def _encode(self, text: str, unknown: Unknown) -> list[int]:
        # one block after another: encode_batch would take every core, and warn when the process forks later
        return [i for block in _blocks(text) for i in self.engine.encode(block).ids]

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        return [self._bytes[i] for i in self.check_ids(ids)]

    def to_dict(self) -> dict[str, Any]:
        by_id = sorted(self.vocabulary, key=self.vocabulary.__getitem__)
        return {
            "kind": self.kind,
            "vocabulary": by_id,
            "merges": [list(pair) for pair in self.merges],
            "end_of_text": self.end_of_text,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BPETokenizer:
        vocabulary, merges = data.get("vocabulary"), data.get("merges")
        if not isinstance(vocabulary, list) or not isinstance(merges, list):
            raise ValueError("a bpe tokenizer needs the lists 'vocabulary' and 'merges'")
        if not all(isinstance(m, list) and len(m) == 2 and all(isinstance(p, str) for p in m) for m in merges):
            raise ValueError("each entry of a bpe tokenizer's 'merges' is a pair of pieces")
        if not all(isinstance(p, str) for p in vocabulary):
            raise ValueError("each entry of a bpe tokenizer's 'vocabulary' is a string")
        if len({*vocabulary}) != len(vocabulary):
            raise ValueError("a bpe tokenizer's 'vocabulary' lists a piece twice; each piece needs one id")
        end_of_text = data.get("end_of_text")
        if not isinstance(end_of_text, str | None):
            raise ValueError(f"a bpe tokenizer's 'end_of_text' is {end_of_text!r}; it must be a string, or null")
        return cls({p: i for i, p in enumerate(vocabulary)}, [(a, b) for a, b in merges], end_of_text)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}


def _blocks(text: str) -> Iterator[str]:
    return text_blocks(text.encode("utf-8"))
