"""What every test may use: the shared data, the browser, and a quiet machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# One thread each: set before torch is first imported, here or in a subprocess that inherits it.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Nothing in the suite may reach for a network.
for _name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("WANDB_MODE", "disabled")

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's own folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test data: RESIDLAB_SHARED, or ../shared. The test is skipped where there is none."""
    folder = Path(os.environ.get("RESIDLAB_SHARED") or ROOT.parent / "shared")
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the shared test data: no folder {folder}/data (set RESIDLAB_SHARED to where it is)")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium. Without one: skipped, or a failure where RESIDLAB_REQUIRE_BROWSER=1."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        reason = f"no browser: none of {', '.join(BROWSERS)} is on PATH (Debian: apt-get install chromium)"
        if os.environ.get("RESIDLAB_REQUIRE_BROWSER") == "1":
            pytest.fail(f"RESIDLAB_REQUIRE_BROWSER=1 but {reason}", pytrace=False)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """A headless Chromium, one for the whole suite: playwright allows no second one beside it."""
    from tests.e2e.serving import browsing

    with browsing(chromium) as opened:
        yield opened


@pytest.fixture
def runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty runs folder, where RESIDLAB_RUNS points for the length of the test."""
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setenv("RESIDLAB_RUNS", str(folder))
    return folder
