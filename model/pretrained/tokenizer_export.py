"""A tokenizer trained here as a ``tokenizers.Tokenizer``, whose tokenizer.json transformers reads: the same ids."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.pretrained.files import PretrainedError, read_json
from model.pretrained.tokenizer import PretrainedTokenizer, TokenListTokenizer, byte_alphabet

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
    if kind == "byte":
        return byte_level_engine({c: b for b, c in enumerate(byte_alphabet())}, [], regex=False)
    if kind == "bpe":
        vocabulary = {piece: i for i, piece in enumerate(data["vocabulary"])}
        return byte_level_engine(vocabulary, [tuple(pair) for pair in data["merges"]], special=data.get("end_of_text"))
    if kind in ("char", "symbol", "word"):
        return _listed(str(kind), data["vocabulary"])
    raise PretrainedError(
        f"a tokenizer of kind {kind!r} has no counterpart in transformers; set model.tokenizer = None."
    )


def gpt2_engine(folder: Path) -> Engine:
    """GPT-2's tokenizer from vocab.json and merges.txt."""
    vocabulary = read_json(folder / "vocab.json")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if not isinstance(vocabulary, dict) or not all(len(pair) == 2 for pair in merges):
        raise PretrainedError(f"{folder} has a damaged vocab.json or merges.txt.")
    return byte_level_engine(vocabulary, merges, special=END_OF_TEXT if END_OF_TEXT in vocabulary else None)


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
