"""Token tasks: what the labels call predictable can be computed from what came before, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from lab.corpora import Corpus, open_corpus, tasks


def split_documents(corpus: Corpus, split: str) -> list[np.ndarray]:
    labels = corpus.labels(split)
    assert labels is not None
    cuts = np.flatnonzero(np.diff(labels.document)) + 1
    return np.split(np.asarray(corpus.split(split)), cuts)


def predictable(corpus: Corpus, split: str) -> list[np.ndarray]:
    labels, mask = corpus.labels(split), corpus.loss_mask(split)
    assert labels is not None and mask is not None and mask.dtype == bool
    return np.split(mask, np.flatnonzero(np.diff(labels.document)) + 1)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_induction_repeats_and_masks_what_repeats(split: str) -> None:
    corpus = open_corpus("induction", size=20_000)
    for ids, mask in zip(split_documents(corpus, split), predictable(corpus, split), strict=True):
        half = (len(ids) - 1) // 2
        assert ids[0] == corpus.tokenizer.bos_id  # type: ignore[union-attr]
        assert np.array_equal(ids[1 : half + 1], ids[half + 1 :])
        assert tasks.INDUCTION_HALF[0] <= half <= tasks.INDUCTION_HALF[1]
        for i in range(len(ids)):
            # looking up the last occurrence of the previous token foretells this one exactly where masked
            earlier = np.flatnonzero(ids[: i - 1] == ids[i - 1]) if i > 1 else np.array([], dtype=int)
            assert mask[i] == (len(earlier) > 0 and ids[earlier[-1] + 1] == ids[i])


@pytest.mark.parametrize("split", ["train", "validation"])
def test_modular_addition_adds(split: str) -> None:
    corpus = open_corpus("modular-addition", size=30_000)
    rows = np.asarray(corpus.split(split)).astype(int).reshape(-1, 6)
    assert np.array_equal((rows[:, 0] + rows[:, 2]) % tasks.MODULUS, rows[:, 4])
    mask = corpus.loss_mask(split)
    assert mask is not None
    assert np.array_equal(mask.reshape(-1, 6), np.tile([False, False, False, False, True, False], (len(rows), 1)))


def test_modular_addition_keeps_validation_pairs_out_of_training() -> None:
    corpus = open_corpus("modular-addition")  # several passes over the training pairs
    pairs = [
        {(int(r[0]), int(r[2])) for r in np.asarray(corpus.split(s)).reshape(-1, 6)} for s in ("train", "validation")
    ]
    assert not pairs[0] & pairs[1]
    assert len(pairs[0]) == int(tasks.MODULUS**2 * tasks.TRAIN_FRACTION)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_brackets_nest(split: str) -> None:
    corpus = open_corpus("brackets", size=20_000)
    assert corpus.tokenizer is not None
    labels = corpus.labels(split)
    assert labels is not None
    text = corpus.tokenizer.decode(np.asarray(corpus.split(split)).tolist())
    stack: list[str] = []
    mask = corpus.loss_mask(split)
    depth = labels.layer("depth").names()
    assert mask is not None
    for i, symbol in enumerate(text):
        if symbol in "([":
            stack.append(symbol)
        elif symbol == ";":
            assert not stack
        else:
            assert stack.pop() + symbol in ("()", "[]")
        assert mask[i] == (symbol in ")]")
        assert depth[i] == str(len(stack)) and len(stack) <= tasks.MAX_DEPTH
    assert text.endswith(";")


@pytest.mark.parametrize("name", ["induction", "modular-addition", "brackets"])
def test_symbols_round_trip(name: str) -> None:
    corpus = open_corpus(name, size=3000)
    assert corpus.tokenizer is not None and corpus.kind == "tokens"
    ids = np.asarray(corpus.train).tolist()
    assert corpus.tokenizer.encode(corpus.tokenizer.decode(ids)) == ids


@pytest.mark.parametrize("name", ["induction", "modular-addition", "brackets"])
def test_train_and_validation_differ(name: str) -> None:
    corpus = open_corpus(name, size=5000)
    length = len(corpus.validation)
    assert not np.array_equal(corpus.train[:length], corpus.validation)


@pytest.mark.parametrize("name", ["induction", "modular-addition", "brackets"])
def test_even_a_tiny_task_has_both_splits(name: str) -> None:
    corpus = open_corpus(name, size=1)
    assert len(corpus.train) > 0 and len(corpus.validation) > 0
