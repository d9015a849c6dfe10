"""Documents end where they end: a folder's files, marks that are asked for, and round trips of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.corpora import open_corpus, text_corpus
from lab.tokenizers import BPETokenizer, ByteTokenizer, WordTokenizer, load_tokenizer, train_tokenizer
from lab.training.config import DataConfig, RunConfig
from lab.training.data import prepare_data
from model.config import GPTConfig
from model.pretrained.tokenizer import PretrainedTokenizer, TokenListTokenizer, load
from model.tokenizer import byte_alphabet
from tests.model.engines import ENGINES

END = "<|endoftext|>"
FILES = {"a.txt": "The cat sat.\n", "b.txt": "A dog ran", "sub/c.txt": "It's 12 o'clock; 日本.\n\nA second part.\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def like_gpt2(path: Path) -> BPETokenizer:
    """A tokenizer of GPT-2's kind, read from its two files."""
    path.mkdir()
    pieces = [*byte_alphabet(), "Ġt", "Ġth", "he", END]
    (path / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    (path / "merges.txt").write_text("#version: 0.2\nĠ t\nĠt h\nh e\n", encoding="utf-8")
    return BPETokenizer.from_gpt2_files(path)


def both(corpus: Any, tokenizer: Any) -> list[int]:
    return [i for split in ("train", "validation") for i in corpus.encode(tokenizer, split).tolist()]


def test_each_file_of_a_folder_has_its_end(folder: Path, tmp_path: Path) -> None:
    tokenizer = like_gpt2(tmp_path / "gpt2")
    ids = both(open_corpus(folder), tokenizer)
    assert ids.count(tokenizer.eos_id) == 3 and ids[-1] == tokenizer.eos_id
    assert tokenizer.decode(ids) == "".join(f"{text.rstrip(chr(10))}\n{END}" for text in FILES.values())


def test_gpt2s_own_files(folder: Path, shared: Path) -> None:
    spec = f"gpt2:{shared / 'data/gpt2_bpe'}"
    tiny = GPTConfig(d_vocab=50257, n_ctx=2, n_layers=1, n_heads=1, d_model=4)
    data = prepare_data(RunConfig(data=DataConfig(corpus=str(folder), tokenizer=spec), model=tiny))
    assert [*data.train, *data.validation].count(50256) == 3
    assert data.train.dtype == np.uint16 and data.validation_bytes == data.corpus.num_bytes("validation") - len(
        data.tokenizer.pieces(data.validation[:1].tolist())[0]
    )


@pytest.mark.parametrize("number", [1, 2, 7])
def test_as_many_ends_as_files(number: int, tmp_path: Path) -> None:
    tokenizer = like_gpt2(tmp_path / "gpt2")
    texts = tmp_path / "texts"
    texts.mkdir()
    for n in range(number):
        (texts / f"{n}.txt").write_text(f"text {n} " * (n + 1))
    (texts / "empty.txt").write_text("")  # left out, so it has no end either
    assert both(open_corpus(texts), tokenizer).count(tokenizer.eos_id) == number


@pytest.mark.parametrize("size", range(1, 60))
def test_a_file_cut_short_has_no_end(size: int, folder: Path, tmp_path: Path) -> None:
    tokenizer = like_gpt2(tmp_path / "gpt2")
    corpus = open_corpus(folder, size=size)
    whole = [13, 23, 23 + len(FILES["sub/c.txt"])]
    assert corpus.document_ends == tuple(end for end in whole if end <= size)
    ids = both(corpus, tokenizer)
    assert ids.count(tokenizer.eos_id) == len(corpus.document_ends)
    assert tokenizer.decode([i for i in ids if i != tokenizer.eos_id]) == corpus.text


def test_one_text_and_a_tokenizer_without_ends_are_as_they_were(folder: Path, tmp_path: Path) -> None:
    tokenizer = like_gpt2(tmp_path / "gpt2")
    one = open_corpus(folder / "a.txt")
    assert both(one, tokenizer) == [i for part in (one.train, one.validation) for i in tokenizer.encode(str(part))]
    for spec in ("char", "byte", "bpe:260"):
        corpus = open_corpus(folder)
        plain = train_tokenizer(spec, corpus.text)
        assert plain.eos_id is None
        assert both(corpus, plain) == [*plain.encode(str(corpus.train)), *plain.encode(str(corpus.validation))]


def test_words_are_parted_by_their_own_break(folder: Path) -> None:
    corpus = open_corpus(folder)
    tokenizer = corpus.make_tokenizer("word")
    assert both(corpus, tokenizer).count(tokenizer.eos_id) == 3 + 1  # one stands in a text


def test_where_documents_end_is_part_of_the_hash() -> None:
    text = "one two three four"
    hashes = {text_corpus(text, document_ends=ends).sha256 for ends in ((), (4,), (4, 9))}
    assert len(hashes) == 3


# --- marks that are asked for ------------------------------------------------------------------------------------


def with_marks(path: Path) -> list[Any]:
    engine = ENGINES["ByteLevel"]()
    return [
        like_gpt2(path / "gpt2"),
        WordTokenizer.train("a b"),
        PretrainedTokenizer(engine, engine.token_to_id("<tool>"), engine.token_to_id(END)),
        TokenListTokenizer(["a", "b", "<s>", "</s>"], 2, 3),
    ]


def test_marks_are_added_when_asked_for(tmp_path: Path) -> None:
    for tokenizer in with_marks(tmp_path):
        plain = tokenizer.encode("a")
        assert tokenizer.encode("a", bos=True) == [tokenizer.bos_id, *plain]
        assert tokenizer.encode("a", eos=True) == [*plain, tokenizer.eos_id]
        assert tokenizer.encode("a", bos=True, eos=True) == [tokenizer.bos_id, *plain, tokenizer.eos_id]
        assert tokenizer.encode("", bos=True, eos=True) == [tokenizer.bos_id, tokenizer.eos_id]


@pytest.mark.parametrize("mark", ["bos", "eos"])
def test_a_mark_that_is_not_there_is_refused(mark: str) -> None:
    for tokenizer in (ByteTokenizer(), TokenListTokenizer(["a"]), PretrainedTokenizer(ENGINES["WordPiece"]())):
        with pytest.raises(ValueError, match=rf"has no mark of a text's .* \({mark}=True\)"):
            tokenizer.encode("a", **{mark: True})


def test_texts_with_marks_come_back_whole(tmp_path: Path) -> None:
    for tokenizer in with_marks(tmp_path):
        ids = [*tokenizer.encode("a", bos=True, eos=True), *tokenizer.encode("a", eos=True)]
        assert tokenizer.encode(tokenizer.decode(ids)) == ids
        tokenizer.save(tmp_path / "tokenizer.json")
        if isinstance(tokenizer, PretrainedTokenizer | TokenListTokenizer):
            again = load(json.loads((tmp_path / "tokenizer.json").read_text()))
        else:
            again = load_tokenizer(tmp_path / "tokenizer.json")
        assert again == tokenizer and again.encode("a", bos=True, eos=True) == tokenizer.encode("a", bos=True, eos=True)
        assert again.decode(ids) == tokenizer.decode(ids)
