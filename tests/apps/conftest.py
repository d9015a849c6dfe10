"""Runs to look at, trained in seconds."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.training import train_all


@pytest.fixture(scope="session", autouse=True)
def installed_packages_are_scanned_once() -> Iterator[None]:
    """AppTest reads the metadata of every installed package each time it opens an app: most of a test's seconds."""
    from streamlit.components.v2 import manifest_scanner

    scan = functools.cache(manifest_scanner.scan_component_manifests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


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


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the stories, whose words have gold labels."""
    from lab.training import build_run_config, train

    folder = tmp_path_factory.mktemp("probed") / "stories"
    shape = {"n_layers": 1, "d_model": 16, "n_heads": 2, "n_ctx": 32}
    training = {
        "batch_size": 4, "eval_every": 6, "checkpoint_every": 6, "checkpoint_early": False, "sample_every": 0,
        "dynamics": False, "precision": "fp32",
    }  # fmt: skip
    config = build_run_config(
        "stories", "nano", "textbook", steps=12, model_overrides=shape, training_overrides=training
    )
    train(config, run=folder)
    return folder


@pytest.fixture
def with_stories(stories: Path, runs: Path) -> Path:
    """The trained runs, and the one on the stories."""
    shutil.copytree(stories, runs / "stories")
    return runs
