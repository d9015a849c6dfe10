"""What sample and inspect print of tokens: the text of their own ids, and the bytes of those that are no character."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cli import main
from lab.models import open_model
from lab.tokenizers import BPETokenizer, ByteTokenizer
from model.pretrained.tokenizer import PretrainedTokenizer
from tests.model.engines import ENGINES
from tests.model.variants import tiny

Printed = Callable[..., str]


def tokenizers() -> dict[str, Any]:
    return {
        "byte": ByteTokenizer(),
        "bpe": BPETokenizer.train("春 the cat 日本語 " * 9, 300),
        **{
            name: PretrainedTokenizer(ENGINES[name]())
            for name in ("byte fallback", "ByteLevel", "WordPiece", "BPE with </w>")
        },
    }


def folder_of(kind: str, path: Path) -> str:
    tokenizer = tokenizers()[kind]
    model = tiny(d_vocab=tokenizer.vocab_size)
    model.tokenizer = tokenizer
    model.save_pretrained(path)
    return str(path)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["byte", "bpe", "byte fallback", "ByteLevel"])
def test_the_text_is_that_of_its_own_ids(kind: str, seed: int, tmp_path: Path, printed: Printed) -> None:
    folder = folder_of(kind, tmp_path)
    words = ["sample", folder, "--prompt", "春", "--tokens", "40", "--temperature", "3", "--seed", str(seed)]
    result = json.loads(printed(*words, "--json"))
    tokenizer = open_model(folder).tokenizer
    ids = [token["id"] for token in result["tokens"]]
    assert result["text"] == "".join(token["text"] for token in result["tokens"]) == tokenizer.decode(ids)
    assert printed(*words) == result["prompt"] + result["text"] + "\n"
    assert any(token["bytes"] for token in result["tokens"])
    for token in result["tokens"]:
        for one in (token, *token["alternatives"]):
            piece = tokenizer.piece(one["id"])
            is_whole = isinstance(piece, str) or "\ufffd" not in piece.decode("utf-8", "replace")
            assert one["bytes"] == (None if is_whole else piece.hex())


@pytest.mark.parametrize("kind", ["WordPiece", "BPE with </w>"])
def test_words_are_written_apart(kind: str, tmp_path: Path, printed: Printed) -> None:
    folder = folder_of(kind, tmp_path)
    words = ["sample", folder, "--prompt", "the", "--tokens", "20", "--temperature", "3", "--seed", "1"]
    result = json.loads(printed(*words, "--json"))
    tokenizer = open_model(folder).tokenizer
    ids = [*tokenizer.encode("the"), *(token["id"] for token in result["tokens"])]
    assert result["prompt"] + result["text"] == tokenizer.decode(ids) and " " in result["text"]
    assert printed(*words) == tokenizer.decode(ids) + "\n"


def test_inspect_gives_the_bytes_of_parts(tmp_path: Path, printed: Printed) -> None:
    folder = folder_of("byte", tmp_path / "model")
    path = tmp_path / "inspected.json"
    assert main(["inspect", folder, "--prompt", "a春", "--json", str(path)]) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [(token["bytes"], token["display"]) for token in found["tokens"]] == [
        (None, "a"),
        ("e6", "\\xE6"),
        ("98", "\\x98"),
        ("a5", "\\xA5"),
    ]
    for token in found["next_token"]:
        assert token["bytes"] == (None if token["id"] < 128 else f"{token['id']:02x}")
