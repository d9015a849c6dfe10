"""Long texts: encoded in blocks with the ids of the whole, and merges learned from one line as fast as from many."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.corpora import open_corpus, text_corpus
from lab.tokenizers import (
    BPETokenizer,
    ByteTokenizer,
    CharTokenizer,
    UnknownCharacters,
    WordTokenizer,
    blocks,
    encode_utf8,
    text_blocks,
    train_tokenizer,
)
from lab.tokenizers.bytelevel import LONGEST_RUN
from model.tokenizer import byte_alphabet

RNG = random.Random(0)
CHINESE = "".join(chr(0x4E00 + min(int(RNG.paretovariate(0.7) * 10), 3000)) for _ in range(120_000))
RUNS = {
    "Chinese": CHINESE,
    "DNA": "".join(RNG.choices("ACGT", k=120_000)),
    "digits": "".join(RNG.choices("0123456789", k=120_000)),
    "dashes": "-" * 120_000,
    "spaces": " " * 120_000,
    "marks": "".join(RNG.choices("*/+#=", k=120_000)),
}
ORDINARY = {
    "English": "It's a fine day, isn't it?  They'll say so;\tShe'd 12,345 apples...\n\n" * 50 + "x" * LONGEST_RUN,
    "Chinese": "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。" * 60,
    "code": "def f(x):\n    return x ** 2  # ------------------\n\n\n" * 50,
    "mixed": "Seán 日本語 👩‍🚀 בנ Привет, мир! 안녕하세요 ไทย \u3000 \u00a0é\u0301\r\n" * 50,
    "line ends": "\n \n  a b\n\n\tc\n   " * 50,
}
TEXTS = st.text(st.sampled_from("ab'sZ09 \n\t。，、床é\u3000\u00a0\x1c\x85\u2028日👩-_."), max_size=60)


@pytest.fixture(scope="module")
def tokenizers() -> list:
    text = "\n".join(ORDINARY.values())
    return [CharTokenizer.train(text), ByteTokenizer(), BPETokenizer.train(text, 400), WordTokenizer.train(text)]


@pytest.mark.parametrize("name", ORDINARY)
def test_merges_of_ordinary_text_are_those_of_the_library_itself(name: str) -> None:
    from tokenizers import Tokenizer as Engine
    from tokenizers import models, pre_tokenizers, trainers

    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.train_from_iterator(
        [ORDINARY[name]],
        trainers.BpeTrainer(vocab_size=330, initial_alphabet=list(byte_alphabet()), show_progress=False),
    )
    learned = json.loads(engine.to_str())["model"]
    ours = BPETokenizer.train(ORDINARY[name], 330)
    assert ours.vocabulary == learned["vocab"]
    assert [list(pair) for pair in ours.merges] == [list(pair) for pair in learned["merges"]]


@pytest.mark.parametrize("name", RUNS)
def test_one_unbroken_run_costs_no_more_than_three_times_its_lines(name: str) -> None:
    text = RUNS[name]

    def seconds(one: str) -> float:
        start = time.process_time()
        tokenizer = BPETokenizer.train(one, 1024)
        ids = tokenizer.encode(one)
        spent = time.process_time() - start
        assert tokenizer.decode(ids) == one
        return spent

    lines = seconds("\n".join(text[at : at + 40] for at in range(0, len(text), 40)))
    assert seconds(text) < 3 * lines + 1.0


@pytest.mark.parametrize("spec", ["bpe:99999999999999999999", "word:99999999999999999999", "bpe:" + "9" * 5000])
def test_a_vocabulary_beyond_all_bounds_is_refused_in_a_sentence(spec: str) -> None:
    with pytest.raises(ValueError, match=r"asks for more than 1,000,000 entries") as caught:
        train_tokenizer(spec, "some text")
    assert len(str(caught.value)) < 200
    with pytest.raises(ValueError, match=r"at most 1,000,000 entries, not 1000001"):
        BPETokenizer.train("some text", 1_000_001)


@settings(deadline=None, max_examples=200)
@given(text=TEXTS)
def test_blocks_join_to_the_text_and_give_its_ids(text: str, tokenizers: list) -> None:
    raw = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 5)
        for anywhere in (False, True):
            assert "".join(text_blocks(raw, anywhere=anywhere)) == text
        for tokenizer in tokenizers:
            try:
                expected = tokenizer.encode_array(text)
            except UnknownCharacters as error:
                with pytest.raises(UnknownCharacters) as caught:
                    encode_utf8(tokenizer, raw)
                assert (caught.value.characters, caught.value.positions) == (error.characters, error.positions)
            else:
                found = encode_utf8(tokenizer, raw)
                assert found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize("name", ORDINARY)
def test_blocks_of_ordinary_text_are_bounded_and_give_its_ids(
    name: str, tokenizers: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ORDINARY[name]
    monkeypatch.setattr(blocks, "BLOCK", 64)
    assert max(map(len, text_blocks(text.encode()))) <= 64 + LONGEST_RUN
    for tokenizer in tokenizers:
        assert np.array_equal(encode_utf8(tokenizer, text.encode()), tokenizer.encode_array(text))
    for spec in ("char", "word", "bpe:300"):
        assert train_tokenizer(spec, text_blocks(text.encode())) == train_tokenizer(spec, text)


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("spec", ["auto", "byte", "word", "bpe:300"])
def test_a_file_is_split_and_encoded_as_its_text_would_be(name: str, spec: str, tmp_path: Path) -> None:
    text = ORDINARY[name].replace("\r\n", "\n")
    (tmp_path / "text.txt").write_bytes(text.encode())
    ours, plain = open_corpus(tmp_path / "text.txt"), text_corpus(text)
    assert (ours.train, ours.validation) == (text[: int(len(text) * 0.9)], text[int(len(text) * 0.9) :])
    assert (ours.sha256, len(ours), ours.text) == (plain.sha256, len(text), text)
    tokenizer = plain.make_tokenizer(spec)
    assert ours.make_tokenizer(spec) == tokenizer
    told: list[float] = []
    for split in ("train", "validation"):
        expected = tokenizer.encode_array(str(plain.split(split)))
        assert np.array_equal(ours.encode(tokenizer, split, lambda what, share: told.append(share)), expected)
        narrow = ours.encode(tokenizer, split, narrow=True)
        assert np.array_equal(narrow, expected) and narrow.dtype.itemsize == (1 if len(tokenizer) <= 256 else 2)
        assert ours.num_bytes(split) == len(str(plain.split(split)).encode())
    assert told[-1] == 1.0


def test_a_long_file_is_never_held_as_text_or_as_a_list(tmp_path: Path) -> None:
    line = "It was a fine day, and “the café” was open; 春天来了。\n"
    path = tmp_path / "long.txt"
    path.write_text(line * 400_000, encoding="utf-8")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        corpus = open_corpus(path)
        tokenizer = corpus.default_tokenizer()
        ids = corpus.encode(tokenizer, "train", narrow=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ids.dtype == np.uint8 and len(ids) == int(len(line) * 400_000 * 0.9)
    assert peak < 2.2 * size + 60e6  # the bytes, an id for each, and some blocks
