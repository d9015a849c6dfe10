"""Encoding a text that is too long to be held as a str and as a list of ids at the same time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lab.tokenizers.blocks import OnProgress, Raw, text_blocks, told
from lab.tokenizers.bytelevel import BPETokenizer, ByteTokenizer
from lab.tokenizers.vocabulary import CharTokenizer, WordTokenizer
from model.tokenizer import Tokenizer, UnknownCharacters


def encode_utf8(
    tokenizer: Tokenizer,
    raw: Raw,
    on_progress: OnProgress | None = None,
    what: str = "encoding",
    *,
    narrow: bool = False,
) -> np.ndarray:
    """Ids of UTF-8 text, [token] of the tokenizer's dtype, as `tokenizer.encode_array` of the whole text gives them,
    without ever holding that text or a list of its ids. `on_progress` hears `what`, and which share is done.

    narrow: uint8 where the vocabulary has at most 256 ids.
    """
    blocks = _blocks_for(tokenizer, raw)
    if blocks is None:
        return tokenizer.encode_array(str(raw, "utf-8"))
    dtype = np.uint8 if narrow and tokenizer.vocab_size <= 256 else tokenizer.dtype
    ids = np.empty(len(raw), dtype)  # a token has at least a byte; pages that are not written cost nothing
    used = characters = 0
    unknown: dict[str, int] = {}
    unit = "character"
    for block in told(blocks, len(raw), on_progress, what):
        try:
            found = tokenizer.encode_array(block)
        except UnknownCharacters as error:
            unit = error.unit
            for one, at in zip(error.characters, error.positions, strict=True):
                unknown.setdefault(one, characters + at)
            found = ids[:0]
        if used + len(found) > len(ids):
            raise ValueError(f"{tokenizer!r} makes more tokens than the text has bytes")
        ids[used : used + len(found)] = found
        used += len(found)
        characters += len(block)
    if unknown:
        raise UnknownCharacters(list(unknown), list(unknown.values()), unit)
    ids.resize(used, refcheck=False)
    return ids


def _blocks_for(tokenizer: Tokenizer, raw: Raw) -> Iterator[str] | None:
    """The blocks in which this tokenizer may read; None where only the whole text is sure to give the same ids."""
    if isinstance(tokenizer, CharTokenizer | ByteTokenizer):
        return text_blocks(raw, anywhere=True)
    if isinstance(tokenizer, BPETokenizer | WordTokenizer):
        return text_blocks(raw)
    return None
