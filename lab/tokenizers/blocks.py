"""Long texts in blocks: UTF-8 bytes cut where no token reaches across, so that the ids are those of the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

BLOCK = 1 << 18  # bytes: large enough to be fast, small enough that what a block costs does not matter
Raw = bytes | bytearray | memoryview
OnProgress = Callable[[str, float], None]
"""Called now and then with what is being done, in words, and how much of it is done, 0 to 1."""

# Before a space or a line break that follows something visible, and between a Chinese character and its comma or full
# stop, words end in GPT-2's pattern and in ours, whatever comes before or after. White space has several definitions;
# what stands on the left here is none in any of them.
_SAFE = re.compile(
    rb"(?:(?<=[!-~])|(?<=[\xc3-\xdf][\x80-\xbf])|(?<=[\xe4-\xed][\x80-\xbf]{2}))(?=[ \n])"
    rb"|(?<=[\xe5-\xe9][\x80-\xbf]{2})(?=\xe3\x80[\x81\x82]|\xef\xbc\x8c)"
)
_START = re.compile(rb"[\x00-\x7f\xc0-\xff]")  # the first byte of a character


def text_blocks(raw: Raw, *, anywhere: bool = False, longest: int | None = None) -> Iterator[str]:
    """The text of UTF-8 `raw` in blocks of about BLOCK bytes, each cut where words end.

    anywhere: cut between any two characters. longest: bytes after which a block is cut so even where no word ends;
    None: never, however long that makes it.
    """
    raw = memoryview(raw)
    start = 0
    while len(raw) - start > BLOCK:
        last = len(raw) if longest is None else min(len(raw), start + max(longest, BLOCK))
        found = None if anywhere else _SAFE.search(raw, start + BLOCK, last)
        if found is None:
            found = _START.search(raw, start + BLOCK if anywhere else last)
        if found is None:
            break
        yield str(raw[start : found.start()], "utf-8")
        start = found.start()
    if start < len(raw):
        yield str(raw[start:], "utf-8")


def told(blocks: Iterable[str], total: int, on_progress: OnProgress | None, what: str) -> Iterator[str]:
    """The same blocks; `on_progress` hears `what`, and which share of `total` bytes has been taken."""
    seen = 0
    for block in blocks:
        yield block
        seen += len(block.encode("utf-8"))
        if on_progress is not None:
            on_progress(what, min(1.0, seen / total))
