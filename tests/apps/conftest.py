"""Runs to look at, trained in seconds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.apps.training import train_all


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with a run of each kind. Read-only for tests; `runs` gives one of their own."""
    return train_all(tmp_path_factory.mktemp("explorer"))


@pytest.fixture
def runs(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the trained runs that the test may write to; RESIDLAB_RUNS points there."""
    from lab.runs import Run

    folder = tmp_path / "runs"
    shutil.copytree(trained, folder)
    Run(folder / "running").write_status("running", 7, 12)  # this process is its trainer, and alive
    monkeypatch.setenv("RESIDLAB_RUNS", str(folder))
    return folder
