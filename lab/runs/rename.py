"""Give a run another name: its folder moves, in one step, within the folder it lies in."""

from __future__ import annotations

import os
from pathlib import Path

from lab.runs.folder import Run, RunExistsError, RunNotFoundError, runs_root
from lab.runs.listing import run_path
from lab.runs.process import RunBusyError


def rename_run(run: Run, name: str, root: str | os.PathLike[str] | None = None) -> Run:
    """The run under its new name.

    Only a run that lies right below the root (one further down belongs to a study, which knows it by its name) and that
    nobody trains. Raises ValueError for a name that could lead elsewhere, RunExistsError for one that is taken,
    RunBusyError, RunNotFoundError; nothing is touched then.
    """
    base = (Path(root) if root is not None else runs_root()).resolve()
    if not run.exists():
        raise RunNotFoundError.at(run.path)
    if run.path.is_symlink() or run.path.resolve().parent != base:
        raise ValueError(f"{run.path} does not lie right inside {base}; only runs that do are renamed")
    if "/" in name:
        raise ValueError(f'"{name}" cannot be the name of a run: it is one folder, so no "/" may be in it')
    target = run_path(name, base)
    if target.exists():
        raise RunExistsError(f"{target} is there already; choose another name")
    if run.status().active:
        raise RunBusyError(f"{run.path} is being trained or waits for it; stop it before renaming it")
    with run.lock():  # nobody may start on it while it moves
        run.path.resolve().rename(target)
    return Run(target)
