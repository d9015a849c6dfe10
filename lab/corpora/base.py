"""What a corpus is: two splits, where they come from, and gold labels where the source knows the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from lab.corpora.labels import GoldLabels
from lab.tokenizers import ByteTokenizer, Tokenizer, WordTokenizer, train_tokenizer

Split = Literal["train", "validation"]
SPLITS: tuple[Split, Split] = ("train", "validation")


@dataclass(frozen=True)
class CorpusInfo:
    """A corpus in words. `title` and `description` are keyed by language: "en", "zh"."""

    name: str
    kind: Literal["text", "tokens"]
    title: Mapping[str, str]
    description: Mapping[str, str]
    licence: str
    source: str
    label_layers: tuple[str, ...] = ()
    default_size: int | None = None
    size_unit: str = "characters"


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text corpus (`train`, `validation` are str) or a token task (int arrays, and `tokenizer` is its own).

    `sha256` covers both splits (and a task's vocabulary): equal hashes, equal data. `notes` are sentences
    about what was done to the source on the way in (a byte-order mark dropped, line ends unified).
    `document_ends` are the places in `text`, in characters, where documents end, for text that is made of several.
    """

    info: CorpusInfo
    train: str | np.ndarray
    validation: str | np.ndarray
    seed: int = 0
    tokenizer: Tokenizer | None = None
    notes: tuple[str, ...] = ()
    document_ends: tuple[int, ...] = ()
    default_tokenizer_spec: str = "char"
    extra_words: tuple[str, ...] = ()
    _make_labels: Callable[[Split], GoldLabels] | None = None
    _cache: dict[str, GoldLabels] = field(default_factory=dict, repr=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", self._hash())

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def title(self) -> str:
        return self.info.title["en"]

    @property
    def description(self) -> str:
        return self.info.description["en"]

    @property
    def licence(self) -> str:
        return self.info.licence

    @property
    def source(self) -> str:
        return self.info.source

    @property
    def kind(self) -> Literal["text", "tokens"]:
        return self.info.kind

    @property
    def text(self) -> str:
        """Both splits of a text corpus, one after the other."""
        if not isinstance(self.train, str) or not isinstance(self.validation, str):
            raise ValueError(f"corpus {self.name!r} is made of tokens; decode them with its tokenizer")
        return self.train + self.validation

    def split(self, split: str) -> str | np.ndarray:
        """The data of "train" or "validation"."""
        if split not in SPLITS:
            raise ValueError(f"split must be 'train' or 'validation', not {split!r}")
        return self.train if split == "train" else self.validation

    def __len__(self) -> int:
        """Characters of both splits, or tokens of a task."""
        return len(self.train) + len(self.validation)

    def num_bytes(self, split: str) -> int:
        """UTF-8 bytes of a split's text (what bits per byte divide by); a task's text is its symbols."""
        data = self.split(split)
        if isinstance(data, str):
            return len(data.encode("utf-8"))
        tokenizer = self.default_tokenizer()
        widths = np.array([len(str(p).encode("utf-8")) for p in tokenizer.pieces(range(len(tokenizer)))])
        return int(widths[data].sum())

    def default_tokenizer(self) -> Tokenizer:
        """What tokenizer="auto" means: a task's own; otherwise fitted to both splits, so that none of the
        validation text is unknown."""
        if self.tokenizer is not None:
            return self.tokenizer
        if self.default_tokenizer_spec == "word":
            return WordTokenizer.train(self._words_of_both, extra=[*self.extra_words, *self._words_at_cuts()])
        if self.default_tokenizer_spec == "byte":
            return ByteTokenizer()
        return train_tokenizer(self.default_tokenizer_spec, self.text)

    def make_tokenizer(self, spec: str = "auto") -> Tokenizer:
        """The tokenizer that a run's `tokenizer` setting names, fitted to this corpus."""
        if spec == "auto":
            return self.default_tokenizer()
        if self.tokenizer is not None:
            raise ValueError(f"corpus {self.name!r} has its own tokenizer; use tokenizer 'auto', not {spec!r}")
        if spec.partition(":")[0] == "word":
            return train_tokenizer(spec, self._words_of_both, extra=self._words_at_cuts())
        return train_tokenizer(spec, self.text)

    @property
    def _words_of_both(self) -> str:
        """The text as a word tokenizer will meet it: a word that the cut between the splits halves is two words."""
        train, validation = str(self.train), str(self.validation)
        halved = train[-1:].strip() and validation[:1].strip()
        return f"{train}\n{validation}" if halved else self.text

    def _words_at_cuts(self) -> list[str]:
        """What is a word of its own only because a split or a document ends there: a loose space, one line break."""
        train, validation = str(self.train), str(self.validation)
        if not self.document_ends and train[-1:] != " ":
            return []
        parts = []
        for text, split in ((train, "train"), (validation, "validation")):
            ends = self._ends_in(split)
            parts += [text[begin:end] for begin, end in pairwise([0, *ends, len(text)])]
        return sorted({word for part in parts for word in WordTokenizer.words(part)})

    def encode(self, tokenizer: Tokenizer, split: str) -> np.ndarray:
        """Token ids of a split [token], in the narrowest of uint16 and uint32 that holds the vocabulary.

        A document that ends in the split is followed by the tokenizer's end-of-text token, where it has one.
        """
        data = self.split(split)
        if isinstance(data, str):
            ends = self._ends_in(split) if tokenizer.eos_id is not None else []
            parts = []
            for begin, end in pairwise([0, *ends]):
                parts += [tokenizer.encode_array(data[begin:end]), [tokenizer.eos_id]]
            rest = data[ends[-1] if ends else 0 :]
            if not parts:
                return tokenizer.encode_array(rest)
            return np.concatenate([*parts, tokenizer.encode_array(rest)]).astype(tokenizer.dtype)
        if tokenizer != self.tokenizer:
            raise ValueError(
                f"corpus {self.name!r} is made of its own {len(self.tokenizer or ())} symbols and cannot be "
                f"encoded with another tokenizer ({tokenizer!r}); use corpus.tokenizer"
            )
        return data.astype(tokenizer.dtype)

    def _ends_in(self, split: str) -> list[int]:
        """Where documents end in a split, in characters of the split."""
        cut, size = len(self.train), len(self)
        if split == "train":
            return [end for end in self.document_ends if 0 < end <= cut]
        return [end - cut for end in self.document_ends if cut < end <= size]

    def labels(self, split: str) -> GoldLabels | None:
        """Gold labels of a split: of a text, on spans that tile it; of a task, on its tokens. None where the
        source knows none."""
        self.split(split)
        if self._make_labels is None:
            return None
        if split not in self._cache:
            self._cache[split] = self._make_labels("train" if split == "train" else "validation")
        return self._cache[split]

    def labels_on_tokens(self, tokenizer: Tokenizer, split: str) -> tuple[np.ndarray, GoldLabels]:
        """(ids [token], labels on those tokens) whatever the tokenizer; see GoldLabels.on_tokens."""
        labels = self.labels(split)
        if labels is None:
            raise ValueError(f"corpus {self.name!r} has no gold labels; 'stories', 'python' and the tasks have")
        data = self.split(split)
        if not isinstance(data, str):
            return self.encode(tokenizer, split), labels
        ids, starts, ends = tokenizer.spans(data)
        return ids, labels.on_tokens(data, starts, ends)

    def loss_mask(self, split: str) -> np.ndarray | None:
        """Of a token task: bool [token], True where the token follows from the ones before it. Else None."""
        labels = self.labels(split) if self.kind == "tokens" else None
        return None if labels is None else labels.layer("predictable").codes == 1

    def _hash(self) -> str:
        digest = hashlib.sha256()
        if self.tokenizer is not None:
            digest.update(self.tokenizer.sha256.encode("ascii"))
        elif self.kind == "tokens":
            raise ValueError(f"token corpus {self.name!r} needs the tokenizer of its symbols")
        for data in (self.train, self.validation):
            raw = data.encode("utf-8") if isinstance(data, str) else data.astype("<u4").tobytes()
            digest.update(len(raw).to_bytes(8, "little"))  # so that moving the split changes the hash
            digest.update(raw)
        if self.document_ends:
            digest.update(repr(self.document_ends).encode("ascii"))
        return digest.hexdigest()


def split_by_position(text: str) -> tuple[str, str]:
    """The first 90 % of the characters for training, the rest for validation."""
    cut = int(len(text) * 0.9)
    return text[:cut], text[cut:]
