"""How a token looks in every picture, table and page: visible, unambiguous, harmless.

Tokens are kept raw in data; only what this module returns is made for eyes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.tokenizer import Piece, Tokenizer

_MARKS = {
    " ": "\N{OPEN BOX}",
    "\n": "\N{RETURN SYMBOL}",
    "\t": "\N{RIGHTWARDS ARROW TO BAR}",
    "\r": "\N{SYMBOL FOR CARRIAGE RETURN}",
}
# Numeric forms for the quotes: plotly's labels know &#34; but show &quot; as it stands.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"})
_ISOLATE, _POP_ISOLATE = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_EMPTY = "\N{EMPTY SET}"


@dataclass(frozen=True)
class TokenLabel:
    """One token at one place. `index` tells equal tokens apart: label an axis by index, never by text alone.

    text: what the token adds to the text (bytes that are no whole character as \\xE6);
    display: the same with white space, control and format characters made visible;
    html: `display` escaped for HTML and plotly, right-to-left text isolated so that it cannot reorder
    its neighbours;
    joined: the characters that the token holds only parts of, whole, where its neighbours complete them; else "".
    """

    index: int
    id: int
    text: str
    display: str
    html: str
    joined: str = ""


def token_labels(tokenizer: Tokenizer, ids: Iterable[int]) -> list[TokenLabel]:
    """Labels of the ids of one text, in order. ValueError for an id outside the vocabulary."""
    ids = tokenizer.check_ids(ids)
    pieces = tokenizer.pieces(ids)
    return [
        _label(index, i, piece, joined)
        for index, (i, piece, joined) in enumerate(zip(ids, pieces, _joined(pieces), strict=True))
    ]


def vocabulary_labels(tokenizer: Tokenizer, ids: Iterable[int]) -> list[TokenLabel]:
    """Labels of ids that form no text (alternatives, a vocabulary): each as it is in the middle of one."""
    return [_label(index, i, tokenizer.piece(i)) for index, i in enumerate(tokenizer.check_ids(ids))]


def partial_bytes(tokenizer: Tokenizer, index: int) -> bytes | None:
    """The bytes of a token that is no row of whole characters; None for any other token."""
    piece = tokenizer.piece(index)
    if isinstance(piece, str):
        return None
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError:
        return piece
    return None


def _label(index: int, i: int, piece: Piece, joined: str = "") -> TokenLabel:
    text, display = piece_text(piece)
    return TokenLabel(index, i, text, display, to_html(display), joined)


def _joined(pieces: Sequence[Piece]) -> list[str]:
    """For each piece the whole characters that it shares with its neighbours."""
    shared = [""] * len(pieces)
    if not pieces or not all(isinstance(piece, bytes) for piece in pieces):
        return shared
    place = [at for at, piece in enumerate(pieces) for _ in piece]  # of each byte
    begin = 0
    for character in b"".join(pieces).decode("utf-8", errors="surrogateescape"):  # type: ignore[arg-type]
        end = begin + (1 if "\udc80" <= character <= "\udcff" else len(character.encode("utf-8")))
        if place[begin] != place[end - 1]:
            for at in sorted({*place[begin:end]}):
                shared[at] += character
        begin = end
    return shared


def piece_text(piece: Piece) -> tuple[str, str]:
    """(text, display) of one piece; see TokenLabel."""
    if isinstance(piece, bytes):
        # surrogateescape keeps each stray byte apart from the whole characters around it
        escaped = piece.decode("utf-8", errors="surrogateescape")
        text = "".join(_stray(c) or c for c in escaped)
        shown = "".join(_stray(c) or _visible(c) for c in escaped)
    else:
        text, shown = piece, "".join(map(_visible, piece))
    if shown and unicodedata.combining(shown[0]):
        shown = "\N{DOTTED CIRCLE}" + shown  # an accent alone would land on its neighbour
    return text, shown or _EMPTY


def to_html(display: str) -> str:
    """`display` escaped; isolated where it holds right-to-left characters."""
    escaped = display.translate(_HTML)
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in display):
        return f"{_ISOLATE}{escaped}{_POP_ISOLATE}"
    return escaped


def _stray(character: str) -> str | None:
    """A byte that surrogateescape hid, as \\xE6; None for a real character."""
    code = ord(character)
    return f"\\x{code - 0xDC00:02X}" if 0xDC80 <= code <= 0xDCFF else None


def _visible(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    # Cc control, Cf format (zero width, direction marks), Cs surrogates, Co/Cn no agreed glyph, Z* blanks
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"):
        code = ord(character)
        return f"\\x{code:02X}" if code < 0x80 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
    return character
