"""A tokenizer's file that is damaged ends in one sentence that names it, whatever the damage."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.tokenizers import SymbolTokenizer, UnknownCharacters, load_tokenizer, token_labels, train_tokenizer
from model.pretrained import PretrainedError
from model.pretrained.tokenizer import PretrainedTokenizer, TokenListTokenizer, find_tokenizer
from tests.model.engines import ENGINES

TEXT = "the cat 17\n"
WRONG: tuple[Any, ...] = (None, 5, -1, True, 1e308, "x", [], [1], [[1, 2]], {}, {"a": 1}, {"a": "b"}, [None], [["a"]])


def found(path: Path) -> Any:
    return find_tokenizer(path.parent, {})


def described() -> dict[str, tuple[dict[str, Any], Callable[[Path], Any]]]:
    """The JSON form of each kind, and what reads it."""
    ours = {spec: train_tokenizer(spec, TEXT * 9).to_dict() for spec in ("char", "byte", "word", "bpe:262")}
    ours["symbol"] = SymbolTokenizer(["1", "17", "+"]).to_dict()
    kinds: dict[str, tuple[dict[str, Any], Callable[[Path], Any]]] = {}
    for name, data in ours.items():
        kinds[name] = data, load_tokenizer
        kinds[f"{name}, in a model's folder"] = data, found
    kinds["token-list"] = TokenListTokenizer(["a", "b"], 0, 1).to_dict(), found
    for engine in ("ByteLevel", "WordPiece", "Metaspace, always", "byte fallback, Strip", "BPE with </w>"):
        tokenizer = PretrainedTokenizer(ENGINES[engine](), 0, 1)
        kinds[f"{engine}, kept here"] = tokenizer.to_dict(), found
        kinds[engine] = json.loads(tokenizer.engine.to_str()), found
    return kinds


KINDS = described()


def places(data: Any, depth: int = 3) -> Iterator[tuple[Any, ...]]:
    """The paths to the values of an object and of the objects in it; of a long list the first."""
    if isinstance(data, dict) and depth:
        for key in list(data)[:12]:
            yield (key,)
            yield from ((key, *below) for below in places(data[key], depth - 1))
    elif isinstance(data, list) and data and depth:
        yield (0,)
        yield from ((0, *below) for below in places(data[0], depth - 1))


def damaged(data: dict[str, Any]) -> Iterator[Any]:
    for place in places(data):
        for wrong in (*WRONG, "gone"):
            one = copy.deepcopy(data)
            holder = one
            for key in place[:-1]:
                holder = holder[key]
            if wrong == "gone":
                del holder[place[-1]]
            else:
                holder[place[-1]] = wrong
            yield one


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_wrong_value_is_one_sentence_or_a_tokenizer(kind: str, tmp_path: Path) -> None:
    data, read = KINDS[kind]
    path = tmp_path / "tokenizer.json"
    refused = 0
    for one in damaged(data):
        path.write_text(json.dumps(one))
        try:
            tokenizer = read(path)
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error), one
            refused += 1
            continue
        try:
            ids = tokenizer.encode(TEXT, unknown="skip")
        except UnknownCharacters:
            continue
        tokenizer.decode(ids)
        token_labels(tokenizer, ids)
    assert refused


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"kind": ' * 50_000, "nested too deeply"),
        ("1" * 5_000, "no JSON"),
        ("[]", "no JSON object|no tokenizer file"),
        ("null", "no JSON object|no tokenizer file"),
        ('"x"', "no JSON object|no tokenizer file"),
        ("{}", "no tokenizer file"),
        ('{"kind": "magic"}', "magic"),
        ('{"kind": ["char"]}', "no tokenizer file"),
        ('{"kind": {}}', "no tokenizer file"),
        ("\x00\x01", "no JSON"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git-lfs|no JSON"),
    ],
)
@pytest.mark.parametrize("read", [load_tokenizer, found])
def test_no_tokenizer_at_all(content: str, words: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=words) as error:
        read(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


NAMES = ("tokenizer.json", "tokens.json", "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_does_not_hang(name: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    if name in NAMES[2:]:
        ENGINES["ByteLevel"]().save(str(tmp_path / "tokenizer.json"))
    make(tmp_path / name)
    with pytest.raises(PretrainedError, match=f"{name} is a (named pipe|folder)"):
        find_tokenizer(tmp_path, {})


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_our_own_file_that_is_none_does_not_hang(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match=r"tokenizer\.json is a (named pipe|folder)"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b'{"kind": "\xff"}')
    for read in (load_tokenizer, found):
        with pytest.raises(ValueError, match=r"tokenizer\.json is no JSON file"):
            read(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("vocab.json", "[" * 200_000, r"vocab\.json is nested too deeply"),
        ("vocab.json", "[1]", r"vocab\.json is no vocabulary"),
        ("vocab.json", '{"a": "b"}', r"vocab\.json is no vocabulary"),
        ("vocab.json", '{"a": -1}', r"vocab\.json is no vocabulary"),
        ("vocab.json", '{"a": 1.5}', r"vocab\.json is no vocabulary"),
        ("merges.txt", "a", r"merges\.txt line 1 is not a pair"),
        ("merges.txt", "#version: 0.2\na b c\n", r"merges\.txt line 2 is not a pair"),
        ("merges.txt", "a\u2028 b\n", r"merges\.txt.*(do not fit|lacks)"),
        ("merges.txt", "zz yy\n", r"merges\.txt.*(do not fit|lacks)"),
    ],
)
@pytest.mark.parametrize("ours", [True, False])
def test_gpt2s_two_files(name: str, content: str, words: str, ours: bool, tmp_path: Path) -> None:
    from model.tokenizer import byte_alphabet

    (tmp_path / "vocab.json").write_text(json.dumps({c: i for i, c in enumerate(byte_alphabet())}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=words):
        train_tokenizer(f"gpt2:{tmp_path}", "") if ours else find_tokenizer(tmp_path, {})


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_gpt2s_two_files_as_pipes(name: str, tmp_path: Path) -> None:
    for other in {"vocab.json", "merges.txt"} - {name}:
        (tmp_path / other).write_text("{}" if other == "vocab.json" else "")
    os.mkfifo(tmp_path / name)
    with pytest.raises(PretrainedError, match=f"{name} is a named pipe"):
        find_tokenizer(tmp_path, {})
    with pytest.raises(ValueError, match=name):
        train_tokenizer(f"gpt2:{tmp_path}", "")


def test_a_damaged_sentencepiece_model(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"\x0a\xff not a model")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(PretrainedError, match=r"tokenizer\.model cannot be read"):
        find_tokenizer(tmp_path, {})
    (tmp_path / "tokenizer.model").unlink()
    os.mkfifo(tmp_path / "tokenizer.model")
    with pytest.raises(PretrainedError, match=r"tokenizer\.model is a named pipe"):
        find_tokenizer(tmp_path, {})
