"""What commands that compute results share: files to write, checked before anything runs, and small tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis.results import Result


LARGEST = 2**63 - 1


def check_range(option: str, value: int | None, least: int, most: int = LARGEST) -> None:
    """ValueError for a whole number out of its range; None is an option that was not given."""
    if value is not None and not least <= value <= most:
        limit = "2^63 - 1" if most == LARGEST else f"{most:,}"
        rule = f"at least {least}" if value < least else f"at most {limit}"
        raise ValueError(f"{option} is {value}; it must be {rule}.")


def check_seed(seed: int | None) -> None:
    """ValueError for a seed that no generator takes."""
    if seed is not None and not 0 <= seed <= LARGEST:
        raise ValueError(f"--seed is {seed}; it must be a whole number from 0 to 2^63 - 1.")


def check_writable(*paths: Path | None) -> None:
    """Refuse, before the work and not after it, a file that cannot be written or that is named for two outputs.

    Raises ValueError, or OSError naming the path.
    """
    named = [Path(os.path.realpath(path)) for path in paths if path is not None]
    if len(set(named)) < len(named):
        raise ValueError(f"{named[0]} is named for two outputs, and one would overwrite the other: name two files.")
    for path in paths:
        if path is None:
            continue
        folder = Path(os.path.realpath(path)).parent
        if path.is_dir():
            raise ValueError(f"{path} cannot be written: it is a folder; name a file in it.")
        if not folder.is_dir():
            raise ValueError(f"{path} cannot be written: there is no folder {path.absolute().parent}.")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ValueError(f"{path} cannot be written: permission denied.")


def write_output(path: Path, text: str, *, told: TextIO | None = None) -> None:
    """Write a file that the user named: aside and renamed, so that a full disk leaves the old one or none.

    What is no regular file (/dev/stdout, a pipe) is written as it is. told: where it is said, by default stdout.
    Raises OSError naming the path.
    """
    from lab.runs.files import write_text

    if _is_stdout(path):  # writing it anew would lose what a shell has redirected there
        sys.stdout.write(text)
        return
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and (not target.is_file() or not os.access(target.parent, os.W_OK)):
            with path.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        else:
            mode = target.stat().st_mode if target.exists() else None
            write_text(target, text, durable=False)
            if mode is not None:
                target.chmod(mode)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OSError(problem.errno, os.strerror(problem.errno or 0), str(path)) from problem
    if target.is_file():
        print(f"Wrote {path}", file=told)


def _is_stdout(path: Path) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # no such file yet, or a stdout that is no file
        return False


def write_json(path: Path, result: Result | Mapping[str, Any]) -> None:
    """Strict JSON, indented by one."""
    from lab.runs.files import to_json

    data = result if isinstance(result, Mapping) else result.to_dict()
    write_output(path, to_json(data, indent=1) + "\n")


def write_html(path: Path, figures: Mapping[str, go.Figure], *, title: str, note: str = "") -> None:
    """A page that needs no network."""
    from lab.plots import to_offline_html

    write_output(path, to_offline_html(figures, title=title, note=note))


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
