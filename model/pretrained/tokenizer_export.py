"""A tokenizer trained here as a ``tokenizers.Tokenizer``, whose tokenizer.json transformers reads: the same ids."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.pretrained.files import PretrainedError, read_json, require_regular
from model.pretrained.tokenizer_kinds import PretrainedTokenizer, TokenListTokenizer
from model.tokenizer import byte_alphabet

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

END_OF_TEXT = "<|endoftext|>"
# The same words that lab.tokenizers.WordTokenizer splits a text into.
_WORDS = r"\n\n|\n|'s\b| ?[^\W\d_]+| ?\d| ?[^\w\s]| ?_|\s"


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json, from which transformers makes a tokenizer with the same ids."""
    if isinstance(tokenizer, TokenListTokenizer):
        (folder / "tokens.json").write_text(json.dumps(list(tokenizer.names)) + "\n", encoding="utf-8")
        return
    engine = tokenizer.engine if isinstance(tokenizer, PretrainedTokenizer) else engine_of(tokenizer.to_dict())
    engine.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for mark in ("bos", "eos"):
        i = getattr(tokenizer, f"{mark}_id", None)
        if i is not None:
            config[f"{mark}_token"] = engine.id_to_token(i)
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def engine_of(data: Mapping[str, Any]) -> Engine:
    """The engine that gives a tokenizer of ``lab.tokenizers`` its ids, from the tokenizer's ``to_dict``."""
    kind = data.get("kind")
    vocabulary, merges = data.get("vocabulary"), data.get("merges", [])
    if kind in ("bpe", "char", "symbol", "word"):
        if not isinstance(vocabulary, list) or not all(isinstance(piece, str) for piece in vocabulary):
            raise PretrainedError(f"a tokenizer of kind {kind!r} needs 'vocabulary', a list of strings.")
        if not isinstance(merges, list) or not all(_is_pair(pair) for pair in merges):
            raise PretrainedError("'merges' must be a list of pairs of strings.")
        if not isinstance(data.get("end_of_text"), str | None):
            raise PretrainedError(f"'end_of_text' is {data['end_of_text']!r}; it must be a string, or null.")
    if kind == "byte":
        return byte_level_engine({c: b for b, c in enumerate(byte_alphabet())}, [], regex=False)
    if kind == "bpe":
        ids = {piece: i for i, piece in enumerate(vocabulary or ())}
        return byte_level_engine(ids, [tuple(pair) for pair in merges], special=data.get("end_of_text"))
    if kind in ("char", "symbol", "word"):
        return _listed(str(kind), vocabulary or [])
    raise PretrainedError(
        f"a tokenizer of kind {kind!r} has no counterpart in transformers; set model.tokenizer = None."
    )


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(piece, str) for piece in pair)


def gpt2_engine(folder: Path) -> Engine:
    """GPT-2's tokenizer from vocab.json and merges.txt."""
    vocabulary, merges = read_gpt2_files(folder)
    try:
        return byte_level_engine(vocabulary, merges, special=END_OF_TEXT if END_OF_TEXT in vocabulary else None)
    except PretrainedError as error:
        raise PretrainedError(f"{folder / 'merges.txt'}: {error}") from None


def read_gpt2_files(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """(vocabulary, merges) of vocab.json and merges.txt. PretrainedError naming a damaged file, and the line."""
    path = folder / "vocab.json"
    vocabulary = read_json(path)
    if not isinstance(vocabulary, dict) or not all(type(i) is int and i >= 0 for i in vocabulary.values()):
        raise PretrainedError(f"{path} is no vocabulary: an object of pieces and their ids, whole numbers from 0.")
    path = folder / "merges.txt"
    require_regular(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise PretrainedError(f"{path} is not UTF-8: {error}.") from None
    merges = []
    for number, line in enumerate((line.rstrip("\r") for line in lines), start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise PretrainedError(f"{path} line {number} is not a pair of pieces: {line!r}")
        merges.append((left, right))
    return vocabulary, merges


def byte_level_engine(
    vocabulary: dict[str, int], merges: Any, regex: bool = True, special: str | None = None
) -> Engine:
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Engine

    try:
        engine = Engine(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # what the engine raises has no type of its own
        raise PretrainedError(f"the vocabulary and its merges do not fit together: {error}") from None
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    engine.decoder = decoders.ByteLevel()
    if special is not None:
        engine.add_special_tokens([AddedToken(special, normalized=False)])
    return engine


def _listed(kind: str, vocabulary: list[str]) -> Engine:
    """Whole pieces: characters, symbols (longest first) or words; what is in none of them is an error."""
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Engine

    if kind == "char":
        pattern = r"[\s\S]"
    elif kind == "word":
        pattern = _WORDS
    else:
        longest_first = sorted(vocabulary, key=lambda s: (-len(s), s))
        pattern = "|".join(map(re.escape, longest_first)) + r"|[\s\S]"
    unknown = "<unk>" if "<unk>" in vocabulary else None
    words = {piece: i for i, piece in enumerate(vocabulary)}
    engine = Engine(models.WordLevel(vocab=words, unk_token=unknown) if unknown else models.WordLevel(vocab=words))
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    engine.decoder = decoders.Fuse()
    return engine
