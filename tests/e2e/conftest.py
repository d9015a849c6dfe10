"""One server and one browser for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.apps.training import train_all
from tests.e2e.serving import Server, browsing, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """A headless Chromium; see the `chromium` fixture for when there is none."""
    with browsing(chromium) as opened:
        yield opened


@pytest.fixture(scope="session")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The explorer on small trained runs."""
    home = tmp_path_factory.mktemp("served")
    with serving(train_all(home), home / "server.log") as served:
        yield served


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
