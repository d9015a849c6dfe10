"""From a corpus to batches: token arrays, checked before anything is trained, and windows by (seed, step). No torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.training.config import RunConfig

if TYPE_CHECKING:
    from lab.corpora import Corpus
    from lab.tokenizers import OnProgress, Tokenizer

SPLITS = ("train", "validation")


class DataError(ValueError):
    """The corpus cannot be trained on as configured; the message names the split and the numbers."""


@dataclass(frozen=True)
class TrainingData:
    """Token ids of both splits, and where they come from.

    train, validation: [token] unsigned integers wide enough for every id of the vocabulary.
    validation_bytes: UTF-8 bytes of the validation tokens that are scored (all but the first); None when the
    corpus is not text, where bits per byte mean nothing.
    """

    train: np.ndarray
    validation: np.ndarray
    tokenizer: Tokenizer
    corpus: Corpus
    validation_bytes: int | None

    @property
    def hashes(self) -> dict[str, str]:
        """sha256 of what is learned from, as every checkpoint keeps them."""
        return {"tokenizer_sha256": self.tokenizer.sha256, "corpus_sha256": self.corpus.sha256}


def prepare_data(
    config: RunConfig,
    *,
    tokenizer: Tokenizer | None = None,
    corpus: Corpus | None = None,
    on_progress: OnProgress | None = None,
) -> TrainingData:
    """Read the corpus, make its token arrays, and refuse now what would fail later.

    tokenizer: the run's own on resume; else it is made as `config.data.tokenizer` says.
    on_progress: hears what is being done and which share of it is, for texts that take a while.
    Raises DataError (a split too short for one window, unknown tokens) and what the corpus and the tokenizer
    raise for a name, file or text that is wrong.
    """
    if corpus is None:
        from lab.corpora import open_corpus

        data = config.data
        corpus = open_corpus(data.corpus, seed=data.corpus_seed, size=data.corpus_size, on_progress=on_progress)
    tokenizer = tokenizer or make_tokenizer(config.data.tokenizer, corpus, on_progress)
    train, validation = (corpus.encode(tokenizer, split, on_progress, narrow=True) for split in SPLITS)
    scored_bytes = None
    if corpus.kind == "text":
        first = tokenizer.pieces(validation[:1].tolist())
        first_bytes = sum(len(piece.encode() if isinstance(piece, str) else piece) for piece in first)
        scored_bytes = corpus.num_bytes("validation") - first_bytes
    made = TrainingData(_narrow(train, tokenizer), _narrow(validation, tokenizer), tokenizer, corpus, scored_bytes)
    for split in SPLITS:
        require_window(getattr(made, split), config.model.n_ctx, split, corpus.name)
    return made


def make_tokenizer(spec: str, corpus: Corpus, on_progress: OnProgress | None = None) -> Tokenizer:
    """The tokenizer that `spec` asks for; "auto" is the corpus' own choice.

    Merges (bpe) are learned from the training split alone; an alphabet is read from both, so that validation
    holds nothing unknown.
    """
    from lab.tokenizers import train_tokenizer

    if spec.startswith("bpe") and corpus.kind == "text":
        tokenizer = train_tokenizer(spec, corpus.blocks("train", on_progress=on_progress))
        asked = spec.partition(":")[2]
        if asked.isdigit() and tokenizer.vocab_size < int(asked):
            warnings.warn(
                f"{spec} has {tokenizer.vocab_size} tokens: {corpus.name} offers no more pairs to merge.", stacklevel=2
            )
        return tokenizer
    return corpus.make_tokenizer(spec, on_progress)


def _narrow(ids: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """`ids` [token] in the tokenizer's dtype or a narrower one, every one checked to be in its vocabulary."""
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise DataError(f"token ids must be one row of integers, got shape {ids.shape} of {ids.dtype}")
    if ids.size and (ids.min() < 0 or ids.max() >= tokenizer.vocab_size):
        bad = int(ids.min()) if ids.min() < 0 else int(ids.max())
        raise DataError(f"token id {bad} is outside the tokenizer's vocabulary of {tokenizer.vocab_size} ids")
    return ids if ids.dtype == np.uint8 else ids.astype(tokenizer.dtype, copy=False)


def require_window(ids: np.ndarray, n_ctx: int, split: str, corpus: str) -> None:
    """Raise DataError unless a split has n_ctx + 1 tokens: n_ctx inputs, each with the token after it."""
    if len(ids) < n_ctx + 1:
        fix = f"a context (n_ctx) of at most {len(ids) - 1}, or a longer text"
        if len(ids) < 2:
            fix = "a longer text"
        raise DataError(
            f"the {split} split of {corpus} has {len(ids)} tokens, but one window of the context {n_ctx} needs "
            f"{n_ctx + 1} (each token predicts the next); use {fix}"
        )


class Batches:
    """Batches of random windows; batch number `step` depends on (data_seed, step) and nothing else.

    A window may start at every token from which n_ctx + 1 tokens remain, the last such one included.
    """

    def __init__(self, ids: np.ndarray, n_ctx: int, batch_size: int, data_seed: int):
        require_window(ids, n_ctx, "train", "the corpus")
        self._windows = np.lib.stride_tricks.sliding_window_view(ids, n_ctx + 1)
        self.batch_size, self.data_seed = batch_size, data_seed

    def starts(self, step: int) -> np.ndarray:
        """The first token of each window of batch `step`: [batch]."""
        generator = np.random.Generator(np.random.Philox(key=[self.data_seed, step]))
        return generator.integers(0, len(self._windows), size=self.batch_size)

    def __call__(self, step: int) -> np.ndarray:
        """Windows of batch `step`: int64 [batch, n_ctx + 1]; inputs are [:, :-1], targets [:, 1:]."""
        return self._windows[self.starts(step)].astype(np.int64)


def evaluation_windows(ids: np.ndarray, n_ctx: int, batch_size: int) -> Iterator[np.ndarray]:
    """A whole split cut into neighbouring windows, in order, so that every token but the first is predicted
    once.

    int64 [<= batch_size, n_ctx + 1] arrays, each made when it is asked for; neighbours share one token (the last
    target of one is the first input of the next); what remains at the end is a shorter window of its own.
    """
    whole = (len(ids) - 1) // n_ctx
    if whole:
        windows = np.lib.stride_tricks.sliding_window_view(ids, n_ctx + 1)[: whole * n_ctx : n_ctx]
        for i in range(0, whole, batch_size):
            yield windows[i : i + batch_size].astype(np.int64)
    rest = ids[whole * n_ctx :]
    if len(rest) > 1:
        yield rest.astype(np.int64)[None]
