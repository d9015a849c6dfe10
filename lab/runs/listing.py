"""Find runs below a root: list them, name one, choose a name for a new one.

One folder that cannot be read, one run that goes away meanwhile or one damaged file never hides the others.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.runs.folder import MODELS, Run, RunNotFoundError, runs_root
from lab.runs.status import RunStatus

_ID_PART = re.compile(r"\w[\w.\-]{0,99}")

Told = Callable[[str], None]
"""Called with a sentence about a folder that was passed over."""


def run_path(run_id: str, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the run called `run_id` below `root`.

    Raises ValueError for a name that could leave it.
    """
    parts = run_id.split("/")
    if not run_id or not all(_ID_PART.fullmatch(part) for part in parts):
        raise ValueError(
            f'"{run_id}" cannot be the name of a run: use letters, digits, dots, hyphens and underscores, '
            "beginning with a letter or digit"
        )
    base = Path(root) if root is not None else runs_root()
    path = base.joinpath(*parts)
    if not path.resolve().is_relative_to(base.resolve()):
        raise ValueError(f'"{run_id}" leads out of {base} (through a link)')
    return path


def fresh_run_path(stem: str, root: str | os.PathLike[str] | None = None) -> Path:
    """A path below `root` that no run uses: `stem`, else `stem`-2, `stem`-3, ..."""
    number = 1
    while (path := run_path(stem if number == 1 else f"{stem}-{number}", root)).exists():
        number += 1
    return path


def _run_folders(folder: str, depth: int, told: Told) -> Iterator[tuple[str, float]]:
    """(path, when it last changed) of every run below a folder."""
    try:
        with os.scandir(folder) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda e: e.name)
    except FileNotFoundError:
        return
    except OSError as error:
        told(f"{folder} cannot be read: {error.strerror}")
        return
    for entry in entries:
        try:
            if not entry.is_dir():
                continue
            os.fsencode(entry.path).decode("utf-8")
            if os.path.isfile(os.path.join(entry.path, "config.json")):
                yield entry.path, _changed(entry.path)
            elif depth > 1 and not entry.is_symlink():
                yield from _run_folders(entry.path, depth - 1, told)
        except UnicodeDecodeError:
            shown = os.fsencode(entry.path).decode("utf-8", errors="backslashreplace")
            told(f"{shown} is passed over, because its name is not UTF-8: rename it")
        except OSError as error:
            told(f"{entry.path} cannot be read: {error.strerror}")


def _changed(folder: str) -> float:
    for path in (os.path.join(folder, "status.json"), folder):
        try:
            return os.stat(path).st_mtime
        except OSError:
            continue
    return 0.0


def list_runs(
    root: str | os.PathLike[str] | None = None, *, depth: int = 3, told: Told = lambda sentence: None
) -> list[Run]:
    """Every run below `root` (also study/arm/run), the one that changed last first; [] where there is no root.

    told: hears a sentence about each folder that is passed over: it cannot be read, or its name is not UTF-8.
    """
    base = str(root) if root is not None else str(runs_root())
    apart = os.path.join(base, MODELS) + os.sep
    found = [(path, when) for path, when in _run_folders(base, depth, told) if not path.startswith(apart)]
    return [Run(path) for path, _ in sorted(found, key=lambda one: one[1], reverse=True)]


def list_statuses(root: str | os.PathLike[str] | None = None) -> list[tuple[Run, RunStatus]]:
    """`list_runs` with the status of each; a run that goes away between the listing and the look is left out."""
    found = []
    for run in list_runs(root):
        try:
            found.append((run, run.status()))
        except RunNotFoundError:
            continue
    return found


def find_run(name: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Run:
    """The run at a path, or of that id below the root. Raises RunNotFoundError with the nearest ids."""
    run = Run(name)
    if run.exists():
        return run
    base = Path(root) if root is not None else runs_root()
    below = Run(base / str(name))
    if not Path(name).is_absolute() and below.exists():
        return below
    near = difflib.get_close_matches(Path(name).name, [r.id for r in list_runs(base)], n=3)
    raise RunNotFoundError.at(name, f"; did you mean {' or '.join(near)}?" if near else "")
