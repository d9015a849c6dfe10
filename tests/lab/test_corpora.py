"""Corpora from files, folders, pasted text, Python's library, a download; what every corpus promises."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lab.corpora import (
    Corpus,
    CorpusUnavailable,
    corpus_infos,
    corpus_names,
    files,
    open_corpus,
    python,
    shakespeare,
    text_corpus,
)
from lab.tokenizers import ByteTokenizer, CharTokenizer, UnknownCharacters, WordTokenizer

ROOT = Path(__file__).parents[2]
OFFLINE = [name for name in corpus_names() if name != "shakespeare"]
TEXT = "To be, or not to be: that is the question.\n" * 30


@pytest.fixture(scope="module", params=OFFLINE)
def builtin(request: pytest.FixtureRequest) -> Corpus:
    return open_corpus(request.param, size=30_000)


# --- what every corpus promises -----------------------------------------------------------------------


def test_every_builtin_says_what_it_is() -> None:
    assert len(set(corpus_names())) == len(corpus_names()) == 6
    for info in corpus_infos():
        for words in (info.title, info.description):
            assert set(words) == {"en", "zh"} and all(words.values())
            assert any("\u4e00" <= c <= "\u9fff" for c in words["zh"])
        assert info.licence and info.source


def test_every_builtin_has_two_splits_and_a_hash(builtin: Corpus) -> None:
    assert len(builtin.train) > len(builtin.validation) > 0
    assert len(builtin) == len(builtin.train) + len(builtin.validation) >= 29_000
    assert len(builtin.sha256) == 64 and builtin.title and builtin.licence
    again = open_corpus(builtin.name, size=30_000)
    assert again.sha256 == builtin.sha256


def test_the_default_tokenizer_covers_both_splits(builtin: Corpus) -> None:
    tokenizer = builtin.default_tokenizer()
    for split in ("train", "validation"):
        ids = builtin.encode(tokenizer, split)
        assert ids.dtype == np.uint16 and ids.max() < tokenizer.vocab_size
        data = builtin.split(split)
        if isinstance(data, str):
            assert tokenizer.decode(ids.tolist()) == data
            assert builtin.num_bytes(split) == len(data.encode())
        else:
            assert np.array_equal(ids, data)
            assert builtin.num_bytes(split) == len(tokenizer.decode(data.tolist()).encode())


def test_labels_tile_every_split_with_values_of_a_closed_set(builtin: Corpus) -> None:
    for split in ("train", "validation"):
        labels = builtin.labels(split)
        assert labels is not None and set(labels.layers) == set(builtin.info.label_layers)
        assert labels.starts[0] == 0 and labels.ends[-1] == len(builtin.split(split))
        assert np.array_equal(labels.starts[1:], labels.ends[:-1]) and np.all(labels.starts < labels.ends)
        assert np.all(np.diff(labels.document) >= 0)
        for layer in labels.layers.values():
            assert len(layer.codes) == len(labels)
            assert layer.codes.min() >= -1 and layer.codes.max() < len(layer.values)
            assert layer.description and sum(layer.counts().values()) == np.sum(layer.codes >= 0)
        with pytest.raises(ValueError, match="no label layer 'colour'"):
            labels.layer("colour")


def test_an_unknown_split_is_named(builtin: Corpus) -> None:
    with pytest.raises(ValueError, match="'test'"):
        builtin.split("test")
    with pytest.raises(ValueError, match="'test'"):
        builtin.labels("test")


def test_generation_depends_on_the_seed_alone() -> None:
    names = ("stories", "induction", "modular-addition", "brackets")
    program = (
        "from lab.corpora import open_corpus\n"
        f"print(*[open_corpus(n, seed=s, size=8000).sha256 for n in {names!r} for s in (0, 1)])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0].split())) == 8


def test_opening_corpora_needs_no_torch() -> None:
    program = (
        "import sys; from lab.corpora import open_corpus, corpus_names; corpus_names()\n"
        "open_corpus('stories', size=2000)\n"
        "heavy = {'torch', 'pandas', 'transformers', 'tokenizers', 'pooch'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- names and paths ----------------------------------------------------------------------------------


def test_a_misspelled_name_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'storys' is neither .*Did you mean 'stories'"):
        open_corpus("storys")


@pytest.mark.parametrize("spec", ["", " "])
def test_no_name_is_not_the_current_folder(spec: str) -> None:
    with pytest.raises(ValueError, match="neither a built-in corpus"):
        open_corpus(spec)


@pytest.mark.parametrize("size", [0, -5])
def test_a_size_below_one_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        open_corpus("stories", size=size)


# --- files --------------------------------------------------------------------------------------------


def test_a_text_file_splits_by_position(tmp_path: Path) -> None:
    path = tmp_path / "play.txt"
    path.write_text(TEXT, encoding="utf-8")
    corpus = open_corpus(str(path))
    assert corpus.text == TEXT and len(corpus.train) == int(len(TEXT) * 0.9)
    assert corpus.name == "play.txt" and corpus.kind == "text" and corpus.notes == ()
    assert isinstance(corpus.default_tokenizer(), CharTokenizer)
    assert corpus.labels("train") is None and corpus.loss_mask("train") is None
    with pytest.raises(ValueError, match="no gold labels"):
        corpus.labels_on_tokens(corpus.default_tokenizer(), "train")


def test_tiny_shakespeare_splits_where_others_split_it(shared: Path) -> None:
    corpus = open_corpus(shared / "data" / "tinyshakespeare.txt")
    assert (len(corpus.train), len(corpus.validation)) == (1_003_854, 111_540)
    assert corpus.default_tokenizer().vocab_size == 65


def test_chinese_text_round_trips(shared: Path) -> None:
    corpus = open_corpus(shared / "data" / "zh_songci_excerpt.txt")
    tokenizer = corpus.default_tokenizer()
    assert tokenizer.decode(corpus.encode(tokenizer, "validation").tolist()) == corpus.validation


def test_byte_order_mark_and_line_ends_are_unified_and_said(tmp_path: Path) -> None:
    path = tmp_path / "windows.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    corpus = open_corpus(path)
    assert corpus.text == "one\ntwo\nthree\n"
    assert "byte-order mark" in corpus.notes[0] and "2 carriage returns" in corpus.notes[1]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b" \n\t\n", "only white space"),
        (b"\xef\xbb\xbf", "white space"),
        ("naïve café".encode("latin-1"), r"not UTF-8: byte 0xEF at offset 2 \(line 1\).*cp1252.*iconv"),
        ("床前明月光，疑是地上霜。".encode("gb18030"), "gb18030.*iconv -f GB18030"),
        ("hello".encode("utf-16"), "UTF-16-LE.*byte-order mark"),
        ("hello there".encode("utf-16-le"), "looks like UTF-16-LE"),
        ("hello there".encode("utf-16-be"), "looks like UTF-16-BE"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x02\x00\x00\x00", "not a text file"),
        (b"ok\nok\n\xff\xfe", r"line 3"),
    ],
)
def test_a_bad_file_is_named_with_the_fix(raw: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message) as caught:
        open_corpus(path)
    assert "odd.txt" in str(caught.value)


def test_a_huge_file_is_refused_with_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    path = tmp_path / "big.txt"
    path.write_text("é" * 100, encoding="utf-8")
    with pytest.raises(ValueError, match=r"200 bytes; at most 100"):
        open_corpus(path)
    corpus = open_corpus(path, size=40)  # its beginning may be used, cut between characters
    assert corpus.text == "é" * 40 and "first 40" in corpus.notes[0]


def test_a_folder_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_text("two")
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / ".hidden.txt").write_text("hidden")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00")
    corpus = open_corpus(tmp_path)
    assert corpus.text == "one\ntwo\n" and any("empty.txt" in note for note in corpus.notes)
    assert open_corpus(tmp_path, size=5).text == "one\nt"


def test_a_folder_without_text_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no text file .*it is empty"):
        open_corpus(tmp_path)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00")
    with pytest.raises(ValueError, match=r"it holds picture\.png"):
        open_corpus(tmp_path)


def test_a_bad_file_in_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "bad.txt").write_bytes(b"\x00\x01\x02\x00")
    with pytest.raises(ValueError, match=r"bad\.txt is not a text file"):
        open_corpus(tmp_path)


def test_pasted_text(tmp_path: Path) -> None:
    corpus = text_corpus("abc" * 10)
    assert corpus.text == "abc" * 10 and corpus.name == "pasted text"
    for text in ("", "  \n"):
        with pytest.raises(ValueError, match=r"empty|white space"):
            text_corpus(text)


def test_a_short_text_still_says_its_length() -> None:
    corpus = text_corpus("a")
    assert len(corpus) == 1 and len(corpus.train) + len(corpus.validation) == 1


def test_moving_the_split_changes_the_hash() -> None:
    info = text_corpus("ab").info
    assert Corpus(info, "ab", "c").sha256 != Corpus(info, "a", "bc").sha256


def test_tokenizer_specs_fit_the_corpus() -> None:
    corpus = text_corpus(TEXT)
    assert corpus.make_tokenizer("auto") == corpus.default_tokenizer()
    assert isinstance(corpus.make_tokenizer("byte"), ByteTokenizer)
    assert corpus.make_tokenizer("bpe:300").vocab_size <= 300
    assert isinstance(corpus.make_tokenizer("word"), WordTokenizer)
    with pytest.raises(UnknownCharacters, match="'b'"):
        corpus.encode(CharTokenizer.train("To e"), "train")


def test_a_task_keeps_its_own_tokenizer() -> None:
    corpus = open_corpus("brackets", size=500)
    with pytest.raises(ValueError, match="its own tokenizer"):
        corpus.make_tokenizer("char")
    with pytest.raises(ValueError, match="own 5 symbols"):
        corpus.encode(CharTokenizer.train("()[];"), "train")
    with pytest.raises(ValueError, match="made of tokens"):
        _ = corpus.text


# --- shakespeare --------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "corpora"
    folder.mkdir()
    monkeypatch.setattr(shakespeare, "cache_folder", lambda: folder)
    return folder


def test_shakespeare_is_read_from_the_cache_without_a_network(
    shared: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pooch

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", lambda *_: pytest.fail("went to the network"))
    shutil.copy(shared / "data" / "tinyshakespeare.txt", cache / shakespeare.FILE_NAME)
    corpus = open_corpus("shakespeare")
    assert len(corpus) == 1_115_394 and corpus.name == "shakespeare"
    assert len(open_corpus("shakespeare", size=1000)) == 1000


@pytest.mark.parametrize("left_behind", [None, b"half a downlo"])
def test_shakespeare_offline_says_what_to_do(
    left_behind: bytes | None, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pooch

    def fail(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fail)
    if left_behind:
        (cache / shakespeare.FILE_NAME).write_bytes(left_behind)
    with pytest.raises(CorpusUnavailable) as caught:
        open_corpus("shakespeare")
    message = str(caught.value)
    assert "no route to host" in message and "stories" in message and str(cache) in message
    assert "\n" not in message and isinstance(caught.value, ValueError)


# --- python -------------------------------------------------------------------------------------------


def test_python_source_is_classified(tmp_path: Path) -> None:
    source = 'def f(x):\n    # why\n    return len(x) + 1.5 if x else "é\\n"\n\x0c\nclass A: pass\n'
    ends, codes = python.classify(source)
    starts = [0, *ends[:-1].tolist()]
    found = [(source[s:e], python.TOKEN_CLASSES[c]) for s, e, c in zip(starts, ends, codes, strict=True)]
    assert "".join(piece for piece, _ in found) == source
    expected = {
        ("def", "keyword"), ("f", "name"), ("# why", "comment"), ("len", "builtin"), ("1.5", "number"),
        ('"é\\n"', "string"), ("+", "operator"), ("class", "keyword"), ("A", "name"), ("pass", "keyword"),
    }  # fmt: skip
    assert expected <= set(found)


def test_python_reads_whole_files_in_an_order_of_their_names(tmp_path: Path) -> None:
    for name in ("one", "two", "test/three"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"x = '{name}'\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    corpus = python.open_python(folder=tmp_path)
    assert sorted(corpus.text.splitlines()) == ["x = 'one'", "x = 'two'"]
    assert len(python.open_python(size=1, folder=tmp_path)) == len("x = 'one'\n")


def test_python_without_source_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no library source at"):
        python.open_python(folder=tmp_path)


def test_python_labels_agree_with_the_text() -> None:
    corpus = open_corpus("python", size=60_000)
    labels = corpus.labels("validation")
    assert labels is not None
    layer = labels.layer("token")
    for start, end, name in zip(labels.starts, labels.ends, layer.names(), strict=True):
        piece = corpus.validation[start:end]
        assert isinstance(piece, str)
        if name == "comment":
            assert piece.startswith("#") or start == 0
        if name == "number":
            assert piece[0].isdigit() or piece[0] == "." or start == 0
        if name == "operator":
            assert not any(c.isalnum() for c in piece)
