"""One server for all tests of this folder, and a tab for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.runs import list_runs, queue
from tests.apps.training import train_all
from tests.e2e.serving import Server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The explorer on small trained runs."""
    home = tmp_path_factory.mktemp("served")
    with serving(train_all(home), home / "server.log") as served:
        yield served


@pytest.fixture
def empty(browser: Browser, tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """A server whose runs folder is empty; what is started in it ends with the test."""
    runs = tmp_path / "runs"
    with serving(runs, tmp_path / "server.log") as served:
        yield served, runs
        waiting = queue.waiting_runs(runs)
        for run in list_runs(runs):
            if run in waiting or run.status().active:
                run.request_stop()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh tab of a fresh profile; the test fails when the page's own scripts raise."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True, locale="en-GB")
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert not problems, problems
