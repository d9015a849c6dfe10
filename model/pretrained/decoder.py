"""How a tokenizer.json turns tokens back into text: with its own decoder, token by token where that can be told.

Three manners of vocabulary:

alone       a token carries all that it adds to a text, its space too (GPT-2's bytes, SentencePiece's blocks);
neighbours  the spaces come from what stands beside it (WordPiece's ##, BPE's </w>, words of white space);
whole       only the whole text tells (a decoder that rewrites across tokens).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from model.tokenizer import Piece, byte_alphabet

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space
_BYTE_OF = {c: b for b, c in enumerate(byte_alphabet())}
_BEFORE, _AFTER = "x", "y"  # plain tokens to put beside one, to see what it is in the middle of a text


class Decoder:
    """Reads the tokens of one engine, whose JSON form is ``description``."""

    def __init__(self, engine: Engine, description: dict[str, Any]):
        self.engine = engine
        self.parts = list(_flat(description.get("decoder"), "decoders"))
        self.is_joined_by_spaces = False
        if description.get("decoder") is None:
            # No decoder of its own: the tokens still carry their spaces where the way in has written them there.
            way_in = list(_flat(description.get("pre_tokenizer"), "pretokenizers"))
            if "ByteLevel" in _types(way_in):
                self.parts = [{"type": "ByteLevel"}]
            elif _SPACE in json.dumps([description.get("normalizer"), way_in], ensure_ascii=False):
                self.parts = [{"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}]
            else:
                self.is_joined_by_spaces = True  # as the tokenizers package does
        self.types = _types(self.parts)
        self.manner = "neighbours" if self.is_joined_by_spaces else _manner(self.parts)
        # They stand as they are where the alphabet is one of bytes or made up here; else the file's decoder reads them
        kept = "ByteLevel" in self.types or description.get("decoder") is None
        self._added = engine.get_added_tokens_decoder() if kept else {}
        self._known: dict[int, Piece] = {}

    def piece(self, index: int) -> Piece:
        """What an id is in the middle of a text."""
        if index not in self._known:
            self._known[index] = self._piece(index)
        return self._known[index]

    def _piece(self, index: int) -> Piece:
        token = self.engine.id_to_token(index)
        if token is None:
            return b"" if self.manner == "alone" else ""
        if self.manner == "alone" and index in self._added:
            return self._added[index].content.encode()  # an added token stands for its own text
        if "ByteFallback" in self.types and (byte := _BYTE.fullmatch(token)):
            return bytes((int(byte[1], 16),))
        if "ByteLevel" in self.types:
            # as the engine reads it: a token with any other character is no row of bytes
            return bytes(_BYTE_OF[c] for c in token) if all(c in _BYTE_OF for c in token) else token.encode()
        if self.manner == "alone":
            return self._reader.decode([token]).encode()
        return self._between(token) if self.manner == "neighbours" else self._join([token])

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """What each of some ids adds to their text. Joined they are ``text(ids)``."""
        if self.manner == "whole":
            return list(self._grown(ids))
        pieces: list[Piece] = [self.piece(i) for i in ids]
        if self.manner == "neighbours":
            tokens = [(at, token) for at, i in enumerate(ids) if (token := self.engine.id_to_token(i)) is not None]
            if len(tokens) == 1:
                pieces[tokens[0][0]] = self._join([tokens[0][1]])
            elif tokens:
                pieces[tokens[0][0]] = self._before_another(tokens[0][1])
                pieces[tokens[-1][0]] = self._after(_BEFORE, tokens[-1][1])
        return pieces

    def added(self, index: int, before: Sequence[int]) -> Piece | None:
        """What an id adds to the text of those before it; None in the whole manner."""
        if self.manner == "alone":
            return self.piece(index)
        if self.manner == "whole":
            return None
        token = self.engine.id_to_token(index)
        if token is None:
            return ""
        last = next((t for i in reversed(before) if (t := self.engine.id_to_token(i)) is not None), None)
        return self._join([token]) if last is None else self._after(last, token)

    def text(self, ids: Sequence[int]) -> str:
        """The text of some ids; bytes that form no whole character become U+FFFD."""
        if self.manner == "alone":
            return b"".join(self.piece(i) for i in ids).decode("utf-8", errors="replace")  # type: ignore[misc]
        return self._join([t for i in ids if (t := self.engine.id_to_token(i)) is not None])

    def settled(self, ids: Sequence[int]) -> str:
        """The part of a text that no later id can change, in the whole manner."""
        fused = False
        for part in self.parts:
            if fused and part["type"] in ("Replace", "CTC", "WordPiece"):
                return ""  # rewrites the joined text: its end may always be rewritten
            fused = fused or part["type"] in ("Fuse", "ByteLevel")
        ids = list(ids)
        if "ByteFallback" in self.types:  # a run of bytes is read as a whole
            while ids and _BYTE.fullmatch(self.engine.id_to_token(ids[-1]) or "<0x00>"):
                ids.pop()
        return self.text(ids).removesuffix("\N{REPLACEMENT CHARACTER}")

    # --- the parts -------------------------------------------------------------------------------------------------

    @cached_property
    def _reader(self) -> Any:
        """The decoder without the leading space that it takes away: the model does see that space."""
        return _decoder_of([_mid_text(part) for part in _without_leading_strip(self.parts)])

    @cached_property
    def _own(self) -> Any:
        return _decoder_of(self.parts[:-1] if self._is_stripped else self.parts)

    @property
    def _is_stripped(self) -> bool:
        return self.types[-1:] == ["Strip"] and "Fuse" in self.types

    def _join(self, tokens: list[str]) -> str:
        if self.is_joined_by_spaces:
            return " ".join(tokens)
        text: str = self._own.decode(tokens)
        return _stripped(text, self.parts[-1]) if self._is_stripped else text

    @cached_property
    def _tail(self) -> str:
        """What _AFTER is after another token."""
        return self._after(_BEFORE, _AFTER)

    def _after(self, before: str, token: str) -> str:
        return self._join([before, token])[len(self._join([before])) :]

    def _before_another(self, token: str) -> str:
        return self._join([token, _AFTER]).removesuffix(self._tail)

    def _between(self, token: str) -> str:
        return self._join([_BEFORE, token, _AFTER]).removesuffix(self._tail)[len(self._join([_BEFORE])) :]

    def _grown(self, ids: Sequence[int]) -> Iterator[str]:
        """The whole text cut where each id's share of it begins."""
        whole = self.text(ids)
        shares = [_common(whole, self.text(ids[:n])) for n in range(1, len(ids))] + [len(whole)]
        for at in reversed(range(len(shares) - 1)):
            shares[at] = min(shares[at], shares[at + 1])
        begin = 0
        for end in shares[: len(ids)]:
            yield whole[begin:end]
            begin = end


def _stripped(text: str, strip: dict[str, Any]) -> str:
    """What a last Strip leaves; the engine panics where it takes all of a text away."""
    content, start, stop = strip["content"], strip["start"], strip["stop"]
    left = right = 0
    while left < min(start, len(text)) and text[left] == content:
        left += 1
    while right < min(stop, len(text)) and text[-1 - right] == content:
        right += 1
    return text[left : len(text) - right]


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _flat(description: Any, inner: str) -> Iterator[dict[str, Any]]:
    """The parts of a decoder or pre-tokenizer, a sequence's one by one."""
    if isinstance(description, dict):
        if description.get("type") == "Sequence":
            for part in description.get(inner, ()):
                yield from _flat(part, inner)
        else:
            yield description


def _types(parts: Sequence[dict[str, Any]]) -> list[str]:
    return [part.get("type", "") for part in parts]


def _manner(parts: Sequence[dict[str, Any]]) -> str:
    types = _types(parts)
    if types[:1] == ["ByteLevel"]:
        return "alone" if set(types[1:]) <= {"Fuse"} else "whole"
    fused, beside = False, False
    for part in _without_leading_strip(parts):
        kind = part["type"]
        if kind == "Fuse":
            fused = True
        elif kind == "Replace":
            if fused and len(part.get("pattern", {}).get("String", "xx")) != 1:
                return "whole"
        elif fused or kind not in ("ByteFallback", "Metaspace", "Strip", "WordPiece", "BPEDecoder"):
            return "whole"
        beside = beside or kind in ("WordPiece", "BPEDecoder")
    if beside and (
        types.count("WordPiece") + types.count("BPEDecoder") > 1 or {"ByteFallback", "Metaspace"} & {*types}
    ):
        return "whole"
    if beside and len(_without_leading_strip(parts)) != len(parts):
        return "whole"
    return "neighbours" if beside else "alone"


def _without_leading_strip(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without a last part that takes one space away from the beginning of the whole text."""
    parts = list(parts)
    last = parts[-1] if parts else {}
    is_leading = last.get("type") == "Strip" and last.get("content") == " " and last.get("stop") == 0
    return parts[:-1] if is_leading and last.get("start") in (0, 1) and "Fuse" in _types(parts[:-1]) else parts


def _mid_text(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] != "Metaspace":
        return part
    return {k: v for k, v in part.items() if k != "add_prefix_space"} | {"prepend_scheme": "never"}


def _decoder_of(parts: Sequence[dict[str, Any]]) -> Any:
    from tokenizers import Tokenizer as Engine

    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    whole = {"type": "Sequence", "decoders": list(parts)}
    return Engine.from_str(json.dumps({"version": "1.0", "model": model, "decoder": whole})).decoder
