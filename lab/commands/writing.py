"""What commands that compute results share: files to write, checked before anything runs, and small tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis.results import Result


def check_seed(seed: int | None) -> None:
    """ValueError for a seed that no generator takes."""
    if seed is not None and not 0 <= seed < 2**63:
        raise ValueError(f"--seed is {seed}; it must be a whole number from 0 to 2^63 - 1.")


def check_writable(*paths: Path | None) -> None:
    """ValueError for a file whose folder does not exist, or that is named twice: better before the work than after."""
    named = [path.absolute() for path in paths if path is not None]
    if len(set(named)) < len(named):
        raise ValueError(f"{named[0]} is named for two outputs, and one would overwrite the other: name two files.")
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"{path} cannot be written: there is no folder {path.absolute().parent}.")


def write_json(path: Path, result: Result | Mapping[str, Any]) -> None:
    """Strict JSON, indented by one."""
    from lab.runs.files import to_json

    data = result if isinstance(result, Mapping) else result.to_dict()
    path.write_text(to_json(data, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {path}")


def write_html(path: Path, figures: Mapping[str, go.Figure], *, title: str, note: str = "") -> None:
    """A page that needs no network."""
    from lab.plots import to_offline_html

    path.write_text(to_offline_html(figures, title=title, note=note), encoding="utf-8")
    print(f"Wrote {path}")


def progress_line(what: str) -> Callable[[int, int], None]:
    """A callback that counts on stderr, where somebody looks at it."""

    def tell(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{what} {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return tell


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A titled table; columns that begin with ">" stand to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from lab.commands.console import console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # nothing in a token is markup
    out = console()
    out.print(Text(title), style="bold")
    out.print(table)
    out.print()
