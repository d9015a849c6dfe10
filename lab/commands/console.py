"""Where commands speak: whatever the console's encoding, nothing is cut off, and a reader that leaves is no error."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 10_000
"""Columns where nobody looks at a screen: a line is a row then, and no path is cut in two."""

_ASCII = str.maketrans({"█": "#", "│": "|", "─": "-", "–": "-", "—": "-", "…": "...", "×": "x", "→": "->", "·": "."})


def _spelled(problem: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks: a sign of ours by one that it has, all else as its number, backslash first."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    character = problem.object[problem.start]
    found = character.translate(_ASCII)
    if "\udc80" <= character <= "\udcff":  # a byte of a file's name that its locale could not read
        return f"\\x{ord(character) - 0xDC00:02x}", problem.start + 1
    if found == character:
        found, _ = codecs.backslashreplace_errors(UnicodeEncodeError(problem.encoding, character, 0, 1, problem.reason))  # type: ignore[assignment]
    return found, problem.start + 1


codecs.register_error("residlab", _spelled)


def speak_plainly() -> None:
    """Let stdout and stderr write every character, as a number where their encoding lacks it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="residlab")


def console(**options: Any) -> Console:
    """rich's console on stdout: as wide as a row needs where it is piped; a closed pipe raises BrokenPipeError."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    stream: TextIO = sys.stderr if options.get("stderr") else sys.stdout
    if not stream.isatty() and "COLUMNS" not in os.environ:
        options["width"] = PIPED_WIDTH
    return Ours(highlight=False, **options)


def print_json(value: Any) -> None:
    """Print strict JSON, in ASCII where the encoding of stdout is not UTF-8."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    print(json.dumps(value, indent=1, ensure_ascii=encoding != "utf8", allow_nan=False))


def _shown(character: str) -> str:
    """A character, or its name where it would move the cursor; what the console lacks is left to `speak_plainly`."""
    is_kept = character.isprintable() or "\ud800" <= character <= "\udfff"
    return character if is_kept else repr(character)[1:-1]


def one_line(text: str) -> str:
    """A text as it may be printed: line breaks, escapes and the like by name, so that it stays where it is put."""
    return "".join(map(_shown, text))


def print_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of plain lines, a row each and never wrapped; columns that begin with ">" stand to the right."""
    from rich.cells import cell_len

    right = [heading.startswith(">") for heading in headings]
    table = [[heading.removeprefix(">") for heading in headings], *rows]
    table = [[one_line(cell) for cell in row] for row in table]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = []
        for cell, width, to_the_right in zip(row, widths, right, strict=True):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if to_the_right else cell + space)
        print("  ".join(cells).rstrip())
