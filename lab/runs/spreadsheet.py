"""Tables as CSV that a spreadsheet opens as data: text in them is never run as a formula.

A spreadsheet takes a cell that begins with = + - @ (or their full-width forms), a tab or a line break for a formula,
in quotes too. OWASP's remedy ("CSV Injection") is an apostrophe before such a text; numbers stay numbers. Whoever reads
the file with a program takes it away with `plain_cell`.
"""

import csv
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a text begins that a spreadsheet would run."""


def safe_cell(value: Any) -> Any:
    """A cell's value; a text that a spreadsheet would run gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def plain_cell(text: str) -> str:
    """The text that `safe_cell` was given."""
    return text[1:] if text.startswith(tuple(f"'{begin}" for begin in FORMULA)) else text


def csv_text(frame: Any) -> str:
    """A pandas data frame as CSV with a header and no index column; texts and column names made safe."""
    safe = frame.rename(columns=safe_cell)
    for at, kind in enumerate(frame.dtypes):
        if kind.kind not in "biufcmM":  # numbers and times hold no text
            safe.isetitem(at, frame.iloc[:, at].map(safe_cell, na_action="ignore"))
    text = str(safe.to_csv(index=False))
    if "\r" in text:  # pandas leaves it bare, and it would end the row
        text = str(safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC))
    return text
