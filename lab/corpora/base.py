"""What a corpus is: two splits, where they come from, and gold labels where the source knows the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from lab.corpora.labels import GoldLabels
from lab.corpora.text import Utf8Text, bytes_of_characters, count_characters
from lab.tokenizers import OnProgress, Tokenizer, WordTokenizer, encode_utf8, text_blocks, told, train_tokenizer

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


class Corpus:
    """A text corpus (`train`, `validation` are str) or a token task (int arrays, and `tokenizer` is its own).

    A text that came from a file is kept as its UTF-8 bytes, and `train` and `validation` are made from them when
    asked for; `encode`, the tokenizers' training and `num_bytes` never hold it as a whole str.
    `sha256` covers both splits (and a task's vocabulary): equal hashes, equal data. `notes` are sentences
    about what was done to the source on the way in (a byte-order mark dropped, line ends unified).
    `document_ends` are the places in `text`, in characters, where documents end, for text that is made of several.
    """

    def __init__(
        self,
        info: CorpusInfo,
        train: str | np.ndarray | Utf8Text,
        validation: str | np.ndarray | None = None,
        seed: int = 0,
        tokenizer: Tokenizer | None = None,
        notes: tuple[str, ...] = (),
        document_ends: tuple[int, ...] = (),
        default_tokenizer_spec: str = "char",
        extra_words: tuple[str, ...] = (),
        _make_labels: Callable[[Split], GoldLabels] | None = None,
    ) -> None:
        self.info, self.seed, self.tokenizer, self.notes = info, seed, tokenizer, notes
        self.default_tokenizer_spec, self.extra_words = default_tokenizer_spec, extra_words
        self.document_ends, self._make_labels = document_ends, _make_labels
        self._cache: dict[str, GoldLabels] = {}
        self._utf8 = train if isinstance(train, Utf8Text) else None
        self._data: dict[str, str | np.ndarray] = {}
        if not isinstance(train, Utf8Text) and validation is not None:
            self._data = {"train": train, "validation": validation}
        self.sha256 = self._hash()

    @property
    def train(self) -> str | np.ndarray:
        """What is learned from: the first nine tenths."""
        return self.split("train")

    @property
    def validation(self) -> str | np.ndarray:
        """What is set aside to measure on."""
        return self.split("validation")

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
        train, validation = self.train, self.validation
        if not isinstance(train, str) or not isinstance(validation, str):
            raise ValueError(f"corpus {self.name!r} is made of tokens; decode them with its tokenizer")
        return train + validation

    def split(self, split: str) -> str | np.ndarray:
        """The data of "train" or "validation"."""
        if split not in SPLITS:
            raise ValueError(f"split must be 'train' or 'validation', not {split!r}")
        if self._utf8 is not None:
            return str(self._utf8.split(split), "utf-8")
        return self._data[split]

    def utf8(self, split: str) -> memoryview | None:
        """A split's text as UTF-8 bytes; None of a task."""
        if self._utf8 is not None:
            return self._utf8.split(split)
        data = self.split(split)
        return memoryview(data.encode("utf-8")) if isinstance(data, str) else None

    def __len__(self) -> int:
        """Characters of both splits, or tokens of a task."""
        return self._utf8.characters if self._utf8 is not None else sum(len(data) for data in self._data.values())

    def num_bytes(self, split: str) -> int:
        """UTF-8 bytes of a split's text (what bits per byte divide by); a task's text is its symbols."""
        raw = self.utf8(split)
        if raw is not None:
            return len(raw)
        data, tokenizer = self.split(split), self.default_tokenizer()
        widths = np.array([len(str(p).encode("utf-8")) for p in tokenizer.pieces(range(len(tokenizer)))])
        return int(widths[data].sum())

    def default_tokenizer(self, on_progress: OnProgress | None = None) -> Tokenizer:
        """What tokenizer="auto" means: a task's own; otherwise fitted to both splits, so that none of the
        validation text is unknown."""
        if self.tokenizer is not None:
            return self.tokenizer
        if self.default_tokenizer_spec == "word":
            return WordTokenizer.train(
                self.blocks(words=True, on_progress=on_progress), extra=[*self.extra_words, *self._words_at_cuts()]
            )
        return self.make_tokenizer(self.default_tokenizer_spec, on_progress)

    def make_tokenizer(self, spec: str = "auto", on_progress: OnProgress | None = None) -> Tokenizer:
        """The tokenizer that a run's `tokenizer` setting names, fitted to this corpus."""
        if spec == "auto":
            return self.default_tokenizer(on_progress)
        if self.tokenizer is not None:
            raise ValueError(f"corpus {self.name!r} has its own tokenizer; use tokenizer 'auto', not {spec!r}")
        if spec.partition(":")[0] == "word":
            blocks = self.blocks(words=True, on_progress=on_progress)
            return train_tokenizer(spec, blocks, extra=self._words_at_cuts())
        return train_tokenizer(spec, self.blocks(on_progress=on_progress))

    def _words_at_cuts(self) -> list[str]:
        """What is a word of its own only because a split or a document ends there: a loose space, one line break."""
        if not self.document_ends and bytes(self._raw("train")[-1:]) != b" ":
            return []
        found: set[str] = set()
        for split in SPLITS:
            raw, ends = self._raw(split), self._ends_in(split)
            for begin, end in pairwise([0, *ends, len(raw)]):
                for block in text_blocks(raw[begin:end]):
                    found.update(WordTokenizer.words(block))
        return sorted(found)

    def _ends_in(self, split: str) -> list[int]:
        """Where documents end in a split, in bytes of it."""
        train = self._utf8.split("train") if self._utf8 else self._raw("train")
        cut = count_characters(train) if self.document_ends else 0
        if split == "train":
            return bytes_of_characters(train, [end for end in self.document_ends if 0 < end <= cut])
        ends = [end - cut for end in self.document_ends if cut < end <= len(self)]
        return bytes_of_characters(self._raw(split), ends)

    def blocks(
        self, split: str | None = None, *, words: bool = False, on_progress: OnProgress | None = None
    ) -> Iterator[str]:
        """The text of a split, or of both, in blocks that end where words end; on_progress hears how far it is read.

        words: both splits as a word tokenizer will meet them: a word that the cut between them halves is two words.
        """
        if split is not None:
            return told(
                text_blocks(self._raw(split)),
                self.num_bytes(split),
                on_progress,
                f"learning the tokenizer of {self.name}",
            )
        train, validation = self._raw("train"), self._raw("validation")
        ends = (bytes(train[-4:]).decode("utf-8", "ignore")[-1:], bytes(validation[:4]).decode("utf-8", "ignore")[:1])
        if words and all(end.strip() for end in ends):
            parts: Iterator[str] = chain(text_blocks(train), ("\n",), text_blocks(validation))
        else:
            parts = text_blocks(self._utf8.raw if self._utf8 else bytes(train) + bytes(validation))
        return told(parts, len(train) + len(validation), on_progress, f"learning the tokenizer of {self.name}")

    def _raw(self, split: str) -> memoryview:
        raw = self.utf8(split)
        if raw is None:
            raise ValueError(f"corpus {self.name!r} is made of tokens; decode them with its tokenizer")
        return raw

    def encode(
        self, tokenizer: Tokenizer, split: str, on_progress: OnProgress | None = None, *, narrow: bool = False
    ) -> np.ndarray:
        """Token ids of a split [token], in the narrowest of uint16 and uint32 that holds the vocabulary; with `narrow`
        in uint8 where that does.

        A document that ends in the split is followed by the tokenizer's end-of-text token, where it has one.
        """
        raw = self.utf8(split)
        if raw is not None:
            what = f"encoding the {split} split of {self.name}"
            ends = self._ends_in(split) if tokenizer.eos_id is not None and self.document_ends else []
            if not ends:
                return encode_utf8(tokenizer, raw, on_progress, what, narrow=narrow)
            parts: list[np.ndarray] = []
            for begin, end in pairwise([0, *ends]):
                parts.append(encode_utf8(tokenizer, raw[begin:end], None, narrow=narrow))
                parts.append(np.array([tokenizer.eos_id], parts[-1].dtype))
                if on_progress is not None:
                    on_progress(what, end / len(raw))
            return np.concatenate([*parts, encode_utf8(tokenizer, raw[ends[-1] :], None, narrow=narrow)])
        if tokenizer != self.tokenizer:
            raise ValueError(
                f"corpus {self.name!r} is made of its own {len(self.tokenizer or ())} symbols and cannot be "
                f"encoded with another tokenizer ({tokenizer!r}); use corpus.tokenizer"
            )
        return np.asarray(self.split(split)).astype(tokenizer.dtype)

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
        for split in SPLITS:
            text = self.utf8(split)
            raw = np.asarray(self.split(split)).astype("<u4").tobytes() if text is None else text
            digest.update(len(raw).to_bytes(8, "little"))  # so that moving the split changes the hash
            digest.update(raw)
        if self.document_ends:
            digest.update(repr(self.document_ends).encode("ascii"))
        return digest.hexdigest()


def split_by_position(text: str) -> tuple[str, str]:
    """The first 90 % of the characters for training, the rest for validation."""
    cut = int(len(text) * 0.9)
    return text[:cut], text[cut:]
