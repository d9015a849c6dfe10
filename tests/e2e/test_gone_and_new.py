"""Runs that come and go outside the page: it shows the new one, and a link to one that is gone ends in a sentence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.runs import Run
from tests.e2e.serving import PATIENCE, Server, settled
from tests.e2e.test_getting_about import go
from tests.e2e.test_reading import open_link

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture
def doomed(server: Server) -> Iterator[Run]:
    """A run that the test deletes."""
    run = Run(server.runs / "doomed")
    shutil.copytree(server.runs / "tiny", run.path)
    yield run
    shutil.rmtree(run.path, ignore_errors=True)


def told(page: Page) -> None:
    """The page is whole, and says that the run its link names is not there."""
    settled(page)  # fails where an exception is shown
    page.get_by_text("doomed is not available here").first.wait_for(timeout=PATIENCE)
    assert page.locator("h1").first.is_visible()


@pytest.mark.parametrize("name", ["attention", "dynamics", "runs", "generate"])
def test_a_link_to_a_deleted_run_a_reload_and_a_second_browser(
    server: Server, page: Page, browser: Browser, doomed: Run, name: str
) -> None:
    open_link(page, server, name, run="doomed")
    link = page.url
    assert "run=doomed" in link
    shutil.rmtree(doomed.path)
    page.reload()
    told(page)
    context = browser.new_context(locale="en-GB")
    try:
        other = context.new_page()
        other.goto(link)
        told(other)
        other.reload()  # what it shows now is in its address, and needs no sentence
        settled(other)
        assert other.get_by_text("doomed").count() == 0 and "run=doomed" not in other.url
    finally:
        context.close()


def test_back_to_a_run_that_was_deleted_meanwhile(server: Server, page: Page, doomed: Run) -> None:
    open_link(page, server, "attention", run="doomed", prompt="the cat sat")
    open_link(page, server, "lens", run="tiny")
    shutil.rmtree(doomed.path)
    page.go_back()
    told(page)


def test_a_page_of_runs_where_nothing_is_trained_sees_what_is_started_elsewhere(
    server: Server, empty: tuple[Server, Path], page: Page
) -> None:
    quiet, runs = empty
    page.goto(f"{quiet.url}/runs?lang=en")
    settled(page)
    nothing = page.get_by_text("no model to look at yet").first
    nothing.wait_for(timeout=PATIENCE)
    shutil.copytree(server.runs / "tiny", runs / ".aside")
    (runs / ".aside").rename(runs / "first")
    line = page.locator("[data-testid=stMain] p").filter(has_text="first")  # the run's state, above its buttons
    line.filter(has_text="done, 12 steps").first.wait_for(timeout=PATIENCE)
    Run(runs / "first").write_status("running", 7, 12)  # this process is its trainer
    line.filter(has_text="training, step 7 of 12").first.wait_for(timeout=PATIENCE)
    Run(runs / "first").write_status("done", 12, 12)
    line.filter(has_text="done, 12 steps").first.wait_for(timeout=PATIENCE)
    shutil.rmtree(runs / "first")
    nothing.wait_for(timeout=PATIENCE)
    settled(page)


def test_going_about_and_back_ends_in_the_page(server: Server, page: Page) -> None:
    """Each step of the way back, and of the way forward again, is a whole page."""
    open_link(page, server, "attention")
    for name in ("lens", "runs", "compare"):
        go(page, name)
    for step in (page.go_back, page.go_back, page.reload, page.go_back, page.go_forward, page.reload):
        step(timeout=PATIENCE)
        settled(page)
        assert page.locator("h1").first.is_visible()
