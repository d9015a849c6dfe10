"""The two kinds of tokenizer that come along with a model: an engine of the tokenizers package, and a list of names.

Nothing is prepended or appended to a text. What a token looks like is what it is: the space that Llama 2's kind of
vocabulary puts before a text is shown, for the model does see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from model.pretrained.decoder import Decoder
from model.pretrained.files import PretrainedError
from model.tokenizer import Piece, Tokenizer, Unknown, UnknownCharacters

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine


class PretrainedTokenizer(Tokenizer):
    """A ``tokenizers.Tokenizer``: the tokenizer.json of GPT-2, Llama, Qwen, SmolLM2 and the like."""

    kind = "pretrained"

    def __init__(self, engine: Engine, bos_id: int | None = None, eos_id: int | None = None):
        self.engine = engine
        self.engine.no_padding()
        self.engine.no_truncation()
        self.bos_id, self.eos_id = bos_id, eos_id

    @cached_property
    def vocab_size(self) -> int:
        return max(self.engine.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def _unknown_id(self) -> int | None:
        token = self._description["model"].get("unk_token")
        if token is None and (index := self._description["model"].get("unk_id")) is not None:
            return int(index)
        return None if token is None else self.engine.token_to_id(token)

    @cached_property
    def _description(self) -> dict[str, Any]:
        description: dict[str, Any] = json.loads(self.engine.to_str())
        return description

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.engine, self._description)

    def _encode(self, text: str, unknown: Unknown) -> list[int]:
        """One beginning-of-text token that is written in the text is taken as such; none is added."""
        encoded = self._read(text, unknown)
        if unknown == "skip" and self._unknown_id is not None:
            return [i for i in encoded.ids if i != self._unknown_id]
        return list(encoded.ids)

    def _read(self, text: str, unknown: Unknown) -> Any:
        """The engine's encoding of a text; UnknownCharacters names what it has no token for."""
        try:
            encoded = self.engine.encode(text, add_special_tokens=False)
        except Exception as error:  # what the engine raises has no type of its own
            if type(error) is not Exception and not isinstance(error, ValueError):
                raise
            strange = {c: text.index(c) for c in dict.fromkeys(text) if not self._reads(c)} or {text: 0}
            if unknown == "skip" and text not in strange:
                return self._read("".join(c for c in text if c not in strange), unknown)
            raise UnknownCharacters(list(strange), list(strange.values()), reason=str(error)) from None
        if unknown != "error":
            return encoded
        if self._unknown_id is not None:
            name = self.engine.id_to_token(self._unknown_id)  # it may be written out in the text
            where = [span for i, span in zip(encoded.ids, encoded.offsets, strict=True) if i == self._unknown_id]
            parts = [(text[a:b], a) for a, b in where if text[a:b] != name]
            if parts:
                raise UnknownCharacters([part for part, _ in parts], [a for _, a in parts], "part")
        elif lost := self._dropped(text, encoded):
            raise UnknownCharacters(list(lost), list(lost.values()))
        return encoded

    def _reads(self, text: str) -> bool:
        try:
            self.engine.encode(text, add_special_tokens=False)
        except Exception:
            return False
        return True

    def _dropped(self, text: str, encoded: Any) -> dict[str, int]:
        """Characters that the engine leaves out without a word, and where each first stands.

        Byte-pair encoding does so where it has neither an unknown token nor bytes to fall back on. What a normalizer
        or the split into words takes away is meant to go.
        """
        model = self._description["model"]
        if model.get("type") != "BPE" or model.get("byte_fallback"):
            return {}
        if "ByteLevel" in self._decoder.types and self._lacks_no_byte:
            return {}
        covered = bytearray(len(text))
        for begin, end in encoded.offsets:
            covered[begin:end] = b"\1" * (end - begin)
        dropped = {c: at for at, c in reversed(list(enumerate(text))) if not covered[at] and self._is_kept(c)}
        return dict(sorted(dropped.items(), key=lambda item: item[1]))

    @cached_property
    def _lacks_no_byte(self) -> bool:
        from model.tokenizer import byte_alphabet

        return all(self.engine.token_to_id(c) is not None for c in byte_alphabet())

    def _is_kept(self, character: str) -> bool:
        """Whether a character reaches the model of the engine."""
        normalizer, splitter = self.engine.normalizer, self.engine.pre_tokenizer
        text = character if normalizer is None else normalizer.normalize_str(character)
        return bool(text) and (splitter is None or any(word for word, _ in splitter.pre_tokenize_str(text)))

    def piece(self, index: int) -> Piece:
        return self._decoder.piece(self.check_ids([index])[0])

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        return self._decoder.pieces(self.check_ids(ids))

    def added(self, index: int, before: Sequence[int]) -> Piece | None:
        return self._decoder.added(index, before)

    def settled(self, ids: Sequence[int]) -> str:
        """The part of the text of ``ids`` that no further id can change, where ``added`` cannot tell."""
        return self._decoder.settled(ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids`` as the file's own decoder writes it. Bytes of no whole character become U+FFFD."""
        return self._decoder.text(self.check_ids(ids))

    def spans(self, text: str) -> tuple[Any, Any, Any]:
        """(ids, starts, ends), each [token]: token i covers the characters text[starts[i]:ends[i]]."""
        import numpy as np

        self.encode(text)  # raises, naming what cannot be encoded
        encoded = self.engine.encode(text, add_special_tokens=False)
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)
        return np.array(encoded.ids, dtype=self.dtype), offsets[:, 0], offsets[:, 1]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "engine": self._description, "bos": self.bos_id, "eos": self.eos_id}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PretrainedTokenizer:
        if not isinstance(data.get("engine"), dict):
            raise PretrainedError("a tokenizer of kind 'pretrained' needs 'engine', what a tokenizer.json holds.")
        tokenizer = cls(read_engine(json.dumps(data["engine"])))
        tokenizer.bos_id, tokenizer.eos_id = _marks(data, tokenizer.vocab_size)
        return tokenizer

    def __getstate__(self) -> dict[str, Any]:
        return {"engine": self.engine, "bos_id": self.bos_id, "eos_id": self.eos_id}


class TokenListTokenizer(Tokenizer):
    """A list of names, an id each, written with spaces between them: vocabularies of things that are no text."""

    kind = "token-list"

    def __init__(self, names: Sequence[str], bos_id: int | None = None, eos_id: int | None = None):
        self.names = tuple(names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        if len(self._ids) != len(self.names):
            twice = next(n for i, n in enumerate(self.names) if self._ids[n] != i)
            raise PretrainedError(f"the list of tokens has {twice!r} twice; each needs one id.")
        bad = next((n for n in self.names if not n or n.split() != [n]), None)
        if bad is not None:
            raise PretrainedError(f"the list of tokens has {bad!r}, which cannot be told apart between spaces.")
        self.bos_id, self.eos_id = bos_id, eos_id

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    def _encode(self, text: str, unknown: Unknown) -> list[int]:
        """The names between the white space of a text. A name that is not listed is an error, or left out."""
        return [i for i, _, _ in self._words(text, unknown)]

    def _words(self, text: str, unknown: Unknown = "error") -> list[tuple[int, int, int]]:
        words = [(m[0], m.start(), m.end()) for m in re.finditer(r"\S+", text)]
        stand_in = next((self._ids[n] for n in ("<unk>", "<mask>") if n in self._ids), None)
        if unknown == "replace" and stand_in is not None:
            return [(self._ids.get(w, stand_in), a, b) for w, a, b in words]
        strange = {w: a for w, a, _ in reversed(words) if w not in self._ids}
        if strange and unknown != "skip":
            ordered = sorted(strange.items(), key=lambda item: item[1])
            raise UnknownCharacters([w for w, _ in ordered], [a for _, a in ordered], "name")
        return [(self._ids[w], a, b) for w, a, b in words if w in self._ids]

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        """The name of each id; the spaces between them belong to none."""
        return [self.names[i] for i in self.check_ids(ids)]

    def added(self, index: int, before: Sequence[int]) -> Piece:
        return f" {self.names[index]}" if before else self.names[index]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.names[i] for i in self.check_ids(ids))

    def spans(self, text: str) -> tuple[Any, Any, Any]:
        """(ids, starts, ends), each [token]: token i covers the characters text[starts[i]:ends[i]]."""
        import numpy as np

        words = np.array(self._words(text), dtype=np.int64).reshape(-1, 3)
        return words[:, 0].astype(self.dtype), words[:, 1], words[:, 2]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "names": list(self.names), "bos": self.bos_id, "eos": self.eos_id}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TokenListTokenizer:
        names = data.get("names")
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise PretrainedError("a tokenizer of kind 'token-list' needs 'names', a list of strings.")
        return cls(names, *_marks(data, len(names)))


def _marks(data: dict[str, Any], vocab_size: int) -> tuple[int | None, int | None]:
    for mark in ("bos", "eos"):
        i = data.get(mark)
        if i is not None and (isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < vocab_size):
            raise PretrainedError(f"{mark!r} is {i!r}; it must be an id from 0 to {vocab_size - 1}, or null.")
    return data.get("bos"), data.get("eos")


def read_engine(text: str) -> Engine:
    """The engine that the text of a tokenizer.json describes."""
    from tokenizers import Tokenizer as Engine

    try:
        return Engine.from_str(text)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # what the engine raises has no type of its own, its panics are no Exception
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PretrainedError(f"the tokenizers package cannot read it: {reason}") from None
