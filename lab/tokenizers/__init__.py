"""Tokenizers: char, byte, word, task symbols, byte-pair encoding trained here, GPT-2's from its files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.tokenizers.blocks import OnProgress, text_blocks, told
from lab.tokenizers.bytelevel import LARGEST_VOCABULARY, BPETokenizer, ByteTokenizer
from lab.tokenizers.labels import TokenLabel, partial_bytes, token_labels, vocabulary_labels
from lab.tokenizers.long_text import encode_utf8
from lab.tokenizers.vocabulary import CharTokenizer, SymbolTokenizer, VocabularyTokenizer, WordTokenizer
from model.pretrained.files import read_json
from model.tokenizer import Piece, Tokenizer, Unknown, UnknownCharacters, id_dtype

__all__ = [
    "BPETokenizer",
    "ByteTokenizer",
    "CharTokenizer",
    "OnProgress",
    "Piece",
    "SymbolTokenizer",
    "TokenLabel",
    "Tokenizer",
    "Unknown",
    "UnknownCharacters",
    "VocabularyTokenizer",
    "WordTokenizer",
    "encode_utf8",
    "id_dtype",
    "load_tokenizer",
    "partial_bytes",
    "text_blocks",
    "token_labels",
    "tokenizer_from_dict",
    "tokenizer_specs",
    "told",
    "train_tokenizer",
    "vocabulary_labels",
]

_KINDS: dict[str, type[Tokenizer]] = {
    cls.kind: cls for cls in (CharTokenizer, ByteTokenizer, WordTokenizer, SymbolTokenizer, BPETokenizer)
}
_SPECS = ("char", "byte", "word", "word:SIZE", "bpe:SIZE", "gpt2:FOLDER")


def tokenizer_specs() -> tuple[str, ...]:
    """The forms that `train_tokenizer` takes."""
    return _SPECS


def train_tokenizer(spec: str, text: str | Iterable[str], *, extra: Iterable[str] = ()) -> Tokenizer:
    """The tokenizer that `spec` names, fitted to `text`, or to a long text's blocks (`text_blocks`).

    "char" | "byte" | "word" | "word:5000" | "bpe:4096" | "gpt2:FOLDER" (vocab.json and merges.txt in
    FOLDER). ValueError, naming the forms, for anything else. extra: words taken in as well, by a word tokenizer.
    """
    kind, _, argument = spec.partition(":")
    if kind == "char" and not argument:
        return CharTokenizer.train(text)
    if kind == "byte" and not argument:
        return ByteTokenizer()
    if kind == "word":
        return WordTokenizer.train(text, limit=_size(spec, argument) if argument else None, extra=extra)
    if kind == "bpe":
        return BPETokenizer.train(text, _size(spec, argument))
    if kind == "gpt2" and argument:
        return BPETokenizer.from_gpt2_files(argument)
    near = difflib.get_close_matches(kind, [s.partition(":")[0] for s in _SPECS], n=1)
    hint = f" Did you mean {near[0]!r}?" if near and near[0] != kind else ""
    raise ValueError(f"unknown tokenizer {spec!r}: use {', '.join(_SPECS)}.{hint}")


def _size(spec: str, argument: str) -> int:
    if not argument.isascii() or not argument.isdigit():
        raise ValueError(f"tokenizer {spec!r} needs a vocabulary size after the colon, for example 'bpe:4096'")
    argument = argument.lstrip("0") or "0"
    if len(argument) > len(str(LARGEST_VOCABULARY)) or int(argument) > LARGEST_VOCABULARY:
        raise ValueError(
            f"tokenizer {spec[:60]!r} asks for more than {LARGEST_VOCABULARY:,} entries, the most there may be"
        )
    return int(argument)


def tokenizer_from_dict(data: dict[str, Any]) -> Tokenizer:
    """Rebuild what `Tokenizer.to_dict` described. ValueError when the description is damaged."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"tokenizer kind {kind!r} is none of {', '.join(_KINDS)}")
    return _KINDS[kind].from_dict(data)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote. ValueError with the path when the file is damaged."""
    path = Path(path)
    data = read_json(path)
    try:
        return tokenizer_from_dict(data)
    except ValueError as error:
        raise ValueError(f"{path} is no tokenizer file: {error}") from None
