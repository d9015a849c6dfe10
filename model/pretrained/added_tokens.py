"""Tokens that a folder adds beside its tokenizer.json, and which of all tokens begin and end a text.

They are named in added_tokens.json, in tokenizer_config.json (added_tokens_decoder, additional_special_tokens,
extra_special_tokens, bos_token and the like) and in special_tokens_map.json. Where one of these names something that
the vocabulary's own file does not hold in the same way, transformers says which id it has and how it is matched.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.pretrained.files import PretrainedError, read_object

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

_FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")
_LISTS = ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens")
Marks = tuple[int | None, int | None]


def complete(engine: Engine, folder: Path, config: Mapping[str, Any]) -> Marks:
    """Add to an engine what its folder adds, and return the ids that begin and end a text."""
    held = {token.content: (i, token) for i, token in engine.get_added_tokens_decoder().items()}

    def is_held(content: str, index: int | None, flags: Mapping[str, Any]) -> bool:
        if content not in held:
            return False
        i, token = held[content]
        return index in (None, i) and all(getattr(token, flag) == flags[flag] for flag in _FLAGS if flag in flags)

    if all(is_held(*named) for named in _named(folder)):
        return marks(engine.token_to_id, folder, config)
    theirs = _transformers_own(folder)
    for i, token in sorted(theirs.added_tokens_decoder.items()):
        if engine.get_added_tokens_decoder().get(i) != token:
            engine.add_tokens([token])
    ours = {i: token.content for i, token in engine.get_added_tokens_decoder().items()}
    if ours != {i: token.content for i, token in theirs.added_tokens_decoder.items()}:
        raise PretrainedError(f"{folder} adds tokens that do not fit its vocabulary: save it again with transformers.")
    for content, index, _ in _named(folder):
        if index is not None and engine.token_to_id(content) != index:
            warnings.warn(
                f"{folder} gives the token {content!r} the id {index}, but its vocabulary has no room there; as in "
                f"transformers it has the id {engine.token_to_id(content)}.",
                stacklevel=2,
            )
    bos_id, eos_id = marks(engine.token_to_id, folder, config)
    return (
        bos_id if theirs.bos_token_id is None else theirs.bos_token_id,
        eos_id if theirs.eos_token_id is None else theirs.eos_token_id,
    )


def marks(id_of: Callable[[str], int | None], folder: Path, config: Mapping[str, Any]) -> Marks:
    """(bos, eos): as the tokenizer's files name them, else the ids in config.json."""
    named = _object(folder, "tokenizer_config.json")
    if "added_tokens_decoder" not in named:  # else the map is not read, as in transformers
        named = named | _object(folder, "special_tokens_map.json")
    found: list[int | None] = []
    for mark in ("bos", "eos"):
        token = named.get(f"{mark}_token")
        token = token.get("content") if isinstance(token, dict) else token
        i = id_of(token) if isinstance(token, str) else None
        if i is None:
            listed = config.get(f"{mark}_token_id")
            first = listed[0] if isinstance(listed, list) and listed else listed
            i = first if isinstance(first, int) and not isinstance(first, bool) else None
        found.append(i)
    return found[0], found[1]


def _named(folder: Path) -> Iterator[tuple[str, int | None, Mapping[str, Any]]]:
    """(content, id or None, flags that are given) of each token that the folder names beside its vocabulary."""
    config = _object(folder, "tokenizer_config.json")
    listed = config.get("added_tokens_decoder")
    if isinstance(listed, dict):
        for index, token in listed.items():
            if not isinstance(token, dict) or not isinstance(token.get("content"), str) or not index.isdecimal():
                raise PretrainedError(f"{folder / 'tokenizer_config.json'}: added_tokens_decoder has no token at "
                                      f"{index!r} but {token!r}.")  # fmt: skip
            yield token["content"], int(index), token
    else:
        for content, i in _object(folder, "added_tokens.json").items():
            if isinstance(i, bool) or not isinstance(i, int):
                raise PretrainedError(
                    f"{folder / 'added_tokens.json'} gives {content!r} the id {i!r}, no whole number."
                )
            yield content, i, {}
        yield from _special(_object(folder, "special_tokens_map.json"))
    yield from _special(config)


def _special(named: Mapping[str, Any]) -> Iterator[tuple[str, None, Mapping[str, Any]]]:
    for key, value in named.items():
        if key in _LISTS:
            several = list(value.values()) if isinstance(value, dict) else value
        else:
            several = [value] if key.endswith("_token") else []
        for token in several if isinstance(several, list) else []:
            if isinstance(token, str):
                yield token, None, {}
            elif isinstance(token, dict) and isinstance(token.get("content"), str):
                yield token["content"], None, token


def _object(folder: Path, name: str) -> dict[str, Any]:
    """The object in one of a folder's files; {} where there is no such file."""
    path = folder / name
    return read_object(path) if path.exists() else {}


def _transformers_own(folder: Path) -> Any:
    """transformers' tokenizer of a folder; of the class that its files name, or of the general one."""
    import transformers

    given: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        return transformers.AutoTokenizer.from_pretrained(str(folder), **given)
    except Exception as first:  # no class for these files: they are read alike in the general class
        try:
            return transformers.PreTrainedTokenizerFast.from_pretrained(str(folder), **given)
        except Exception:
            reason = str(first).splitlines()[0] if str(first) else type(first).__name__
            raise PretrainedError(
                f"{folder}: transformers cannot read the tokens that its files add to the vocabulary: {reason}"
            ) from None
