"""A run's new name: one step, and never out of the runs folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.runs import Run, RunBusyError, RunExistsError, RunNotFoundError, list_runs, rename_run


def make(path: Path, state: str = "done") -> Run:
    run = Run(path).create({"schema_version": 1, "training": {"steps": 10}})
    run.write_status(state, 5, 10)
    return run


def test_a_run_moves_whole(runs_folder: Path) -> None:
    run = make(runs_folder / "old")
    run.append("metrics", {"step": 1})
    named = rename_run(run, "new.name-2")
    assert [r.id for r in list_runs()] == ["new.name-2"]
    assert named.metrics() == [{"step": 1}] and not run.exists()


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".hidden", "/etc/x", "a\n", "..", "x" * 200])
def test_names_that_lead_elsewhere_are_refused(name: str, runs_folder: Path) -> None:
    run = make(runs_folder / "old")
    with pytest.raises(ValueError):
        rename_run(run, name)
    assert run.exists()


def test_what_is_not_renamed(runs_folder: Path, tmp_path: Path) -> None:
    run, other = make(runs_folder / "a"), make(runs_folder / "b")
    with pytest.raises(RunExistsError, match="choose another name"):
        rename_run(run, "b")
    with pytest.raises(RunNotFoundError):
        rename_run(Run(runs_folder / "none"), "c")
    live = make(runs_folder / "live", "running")
    with pytest.raises(RunBusyError, match="being trained"):
        rename_run(live, "c")
    with other.lock(), pytest.raises(RunBusyError):
        rename_run(other, "c")
    deep = make(runs_folder / "study" / "arm")
    outside = make(tmp_path / "outside")
    for wrong in (deep, outside):
        with pytest.raises(ValueError, match="does not lie right inside"):
            rename_run(wrong, "c")
    (runs_folder / "link").symlink_to(outside.path)
    with pytest.raises(ValueError, match="does not lie right inside"):
        rename_run(Run(runs_folder / "link"), "c")
    assert all(r.exists() for r in (run, other, live, deep, outside))
