"""One damaged run in the folder: every page still works for the others, and says of that one what is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from lab.runs import Run
from tests.apps.opening import EXPLORER, PAGES, checked, said, unraised
from tests.lab.damages import DAMAGES

SHOWN = (
    "status step abc",
    "status step inf",
    "status heartbeat x",
    "status state weird",
    "status pid x",
    "status.json deep",
    "status.json fifo",
    "config.json deep",
    "config lists",
    "config numbers",
    "metrics.jsonl types",
    "metrics.jsonl folder",
    "samples.jsonl nested",
    "dynamics.jsonl nested",
    "events.jsonl lists",
    "best.json list",
)
"""Damages of which the damaged run itself is opened, on every page."""


def opened(page: str, run: str) -> AppTest:
    at = AppTest.from_file(EXPLORER, default_timeout=60)
    at.query_params["run"] = run
    if page != PAGES[0]:
        at.switch_page(f"views/{page}.py")
    return at.run()


@pytest.fixture
def damaged(runs: Path) -> Path:
    """The trained runs, and one for every kind of damage, `bad-0`, `bad-1`, ...; one more has no UTF-8 name."""
    for number, damage in enumerate(DAMAGES.values()):
        shutil.copytree(runs / "tiny", runs / f"bad-{number}")
        damage.make(runs / f"bad-{number}")
    shutil.copytree(runs / "tiny", runs / os.fsdecode(b"bad\xff"))
    queue = runs / ".queue"
    queue.mkdir()
    for file in ("00000000000000000001.json", "settings.json", "dispatcher.json"):
        (queue / file).write_text("[" * 200_000)
    (runs / ".explorer").mkdir()
    (runs / ".explorer" / "dismissed.json").write_text("[" * 200_000)
    return runs


@pytest.mark.parametrize("page", PAGES)
def test_a_sound_run_is_shown_among_damaged_ones(page: str, damaged: Path) -> None:
    at = checked(opened(page, "tiny"))
    assert at.selectbox(key="run").value == "tiny"
    assert len(at.selectbox(key="run").options) >= len(DAMAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_damaged_run_is_shown_as_far_as_it_can_be(page: str, damaged: Path) -> None:
    names = list(DAMAGES)
    for name in SHOWN:
        at = unraised(opened(page, f"bad-{names.index(name)}"))
        assert at.selectbox(key="run").value == f"bad-{names.index(name)}"
        if page == "train" and DAMAGES[name].of_status:
            assert "status.json" in said(at, "error")


@pytest.mark.parametrize("page", PAGES)
def test_a_run_that_is_deleted_while_its_page_is_drawn(page: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(runs / "tiny", runs / "doomed")
    checkpoints = Run.checkpoints

    def late(self: Run) -> list[int]:
        found = checkpoints(self)
        if self.path.name == "doomed":
            shutil.rmtree(self.path, ignore_errors=True)  # another tab, another shell
        return found

    monkeypatch.setattr(Run, "checkpoints", late)
    unraised(opened(page, "doomed"))
    checked(opened(page, "doomed"))  # and then another run is shown, with a notice
