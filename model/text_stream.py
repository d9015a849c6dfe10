"""Ids into text as they come: the pieces, joined, are the decoded text."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from model.tokenizer import Tokenizer

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Turns generated ids into text one by one, holding back what a later id may still change.

    Joined, the pieces are what the ids add to the text of the prompt: ``decode(ids)``, with the space before it that
    some vocabularies write only between two tokens. A character that the prompt has begun is not completed: the
    prompt's text ends with U+FFFD for it.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int]):
        self.tokenizer = tokenizer
        self.ids = list(prompt)
        self.bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.context: str | None = None  # the prompt's text, once a whole text has been decoded
        self.said = 0

    def add(self, token: int, is_last: bool) -> str:
        """The text that is certain once this id has come; with the last one all that was held back."""
        if self.tokenizer is None:
            return ""
        piece = self.tokenizer.added(token, self.ids) if isinstance(self.tokenizer, Tokenizer) else None
        if piece is None:
            return self._of_the_whole(token, is_last)
        self.ids.append(token)
        if isinstance(piece, bytes):
            return self.bytes.decode(piece, is_last)
        return self.bytes.decode(b"", True) + piece  # text ends an unfinished character

    def _of_the_whole(self, token: int, is_last: bool) -> str:
        """For a tokenizer that tells no piece: from the decoded text up to now."""
        if self.context is None:
            self.context = self.tokenizer.decode(self.ids)
            if self.context.endswith(_UNFINISHED):
                self.ids, self.context = [], ""
        self.ids.append(token)
        text = self.tokenizer.decode(self.ids)
        if not is_last:
            settled = getattr(self.tokenizer, "settled", None)
            text = text.rstrip(_UNFINISHED) if settled is None else settled(self.ids)
        new = text[len(self.context) + self.said :]
        self.said += len(new)
        return new
