"""The tokenizer in a model's folder: ids, beginning and end of a text as transformers' AutoTokenizer has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.pretrained.added_tokens import complete, marks
from model.pretrained.files import PretrainedError, read_json, read_object, require_regular
from model.pretrained.tokenizer_kinds import PretrainedTokenizer, TokenListTokenizer, read_engine
from model.tokenizer import Tokenizer, byte_alphabet

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

__all__ = ["KINDS", "PretrainedTokenizer", "TokenListTokenizer", "byte_alphabet", "find_tokenizer", "load"]

_KINDS: dict[str, type[Tokenizer]] = {cls.kind: cls for cls in (PretrainedTokenizer, TokenListTokenizer)}
KINDS = tuple(_KINDS)


def find_tokenizer(folder: Path, config: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer in a model's folder, or None where it has none. PretrainedError naming a damaged file."""
    if (path := folder / "tokenizer.json").exists():
        return _from_json(path, folder, config)
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        from model.pretrained.tokenizer_export import gpt2_engine

        return _of_folder(gpt2_engine(folder), folder, config)
    if (path := folder / "tokenizer.model").exists():
        return _from_sentencepiece(path, folder, config)
    if (path := folder / "tokens.json").exists():
        names = read_json(path)
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise PretrainedError(f"{path} is no list of tokens' names.")
        places = {name: i for i, name in enumerate(names)}
        return TokenListTokenizer(names, *marks(places.get, folder, config))
    return None


def load(data: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that ``to_dict`` described. PretrainedError says what the description lacks."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PretrainedError(f"tokenizer kind {kind!r} is none of {', '.join(KINDS)}.")
    return _KINDS[kind].from_dict(dict(data))


def _from_json(path: Path, folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    data = read_object(path)
    try:
        if isinstance(kind := data.get("kind"), str) and kind in KINDS:
            return load(data)
        if "kind" in data:  # one that was trained here
            from model.pretrained.tokenizer_export import engine_of

            engine = engine_of(data)
            return PretrainedTokenizer(engine, *marks(engine.token_to_id, folder, config))
        engine = read_engine(json.dumps(data))
    except PretrainedError as error:
        raise PretrainedError(f"{path} is no tokenizer file: {error}") from None
    return _of_folder(engine, folder, config)


def _of_folder(engine: Engine, folder: Path, config: Mapping[str, Any]) -> PretrainedTokenizer:
    bos_id, eos_id = complete(engine, folder, config)
    return PretrainedTokenizer(engine, bos_id, eos_id)


def _from_sentencepiece(path: Path, folder: Path, config: Mapping[str, Any]) -> PretrainedTokenizer:
    import transformers

    require_regular(path)
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged file ends in whatever it causes in sentencepiece or protobuf
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PretrainedError(f"{path} cannot be read: {reason}") from None
    engine = getattr(theirs, "backend_tokenizer", None)
    if engine is None:
        raise PretrainedError(f"{path} holds a tokenizer that the tokenizers package does not know.")
    bos_id, eos_id = marks(engine.token_to_id, folder, config)
    bos_id = bos_id if theirs.bos_token_id is None else theirs.bos_token_id
    return PretrainedTokenizer(engine, bos_id, eos_id if theirs.eos_token_id is None else theirs.eos_token_id)
