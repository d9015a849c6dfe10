"""Pages follow a run in training; a reader who picked a checkpoint is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.runs import Run
from tests.e2e.serving import PATIENCE, Server, settled, widget
from tests.e2e.test_reading import open_link

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture
def moving(server: Server) -> Iterator[Run]:
    """A run in training (this process is its trainer) without a checkpoint so far."""
    run = Run(server.runs / "moving")
    shutil.rmtree(run.path, ignore_errors=True)
    shutil.copytree(server.runs / "tiny", run.path)
    shutil.rmtree(run.path / "checkpoints")
    (run.path / "checkpoints").mkdir()
    run.write_status("running", 0, 12)
    yield run
    shutil.rmtree(run.path, ignore_errors=True)


def checkpoint(server: Server, run: Run, step: int) -> None:
    """Write a checkpoint as a trainer does: aside, then renamed."""
    aside = run.path / "checkpoints" / f".step_{step}"
    newest = max((server.runs / "tiny" / "checkpoints").glob("step_*"))
    shutil.copytree(newest, aside)
    aside.rename(run.path / "checkpoints" / f"step_{step:06d}")


def test_a_page_opened_too_early_draws_itself_at_the_first_checkpoint(server: Server, page: Page, moving: Run) -> None:
    open_link(page, server, "attention", run="moving", prompt="the cat sat")
    assert page.get_by_text("has no checkpoint yet").first.is_visible()
    checkpoint(server, moving, 6)
    widget(page, "attention_head").locator(".js-plotly-plot").wait_for(timeout=PATIENCE)
    moving.write_status("running", 9, 12)
    page.get_by_test_id("stSidebar").get_by_text("step 9 of 12").wait_for(timeout=PATIENCE)
    checkpoint(server, moving, 9)
    page.get_by_test_id("stSliderThumbValue").get_by_text("latest (9)").wait_for(timeout=PATIENCE)


def test_a_picked_checkpoint_stays_and_the_end_is_told(server: Server, page: Page, moving: Run) -> None:
    checkpoint(server, moving, 3)
    checkpoint(server, moving, 6)
    open_link(page, server, "attention", run="moving", prompt="the cat sat", step="3")
    checkpoint(server, moving, 9)
    page.wait_for_timeout(5000)
    assert "step=3" in page.url and page.get_by_text("latest (9)").count() == 0
    moving.write_status("done", 12, 12)
    page.get_by_test_id("stSidebar").get_by_text("done, 12 steps").wait_for(timeout=PATIENCE)
    assert "step=3" in page.url


@pytest.mark.parametrize("name", ["attention", "runs", "train"])
def test_a_run_that_is_deleted_meanwhile_ends_in_a_page(server: Server, page: Page, moving: Run, name: str) -> None:
    checkpoint(server, moving, 6)
    open_link(page, server, "" if name == "train" else name, run="moving")
    shutil.rmtree(moving.path)
    page.wait_for_timeout(4000)
    page.reload()
    settled(page)  # fails where an exception is shown
    assert "run=moving" not in page.url  # another run is shown; what became of this one was said before the reload
    assert page.get_by_role("heading", level=1).first.is_visible()


def test_six_tabs_at_once_each_keep_their_own(server: Server, page: Page, tmp_path: Path) -> None:
    """Run, prompt, language and interventions of six tabs, three rounds of use, none in another's."""
    wanted = [
        ("tiny", "the cat", "en", "zero,layer=0,head=0"),
        ("postnorm", "tom sat", "zh", "zero,layer=1,head=1"),
        ("single", "lily gave", "en", "zero,layer=0,head=0"),
        ("tiny", "the mat", "zh", "scale,site=mlp_out,layer=1,factor=0.5"),
        ("postnorm", "gave the ball", "en", ""),
        ("tiny", "on the mat", "en", "zero,layer=1,head=0"),
    ]
    tabs = [page, *(page.context.new_page() for _ in wanted[1:])]
    for pages in ("interventions", "lens", "interventions"):
        for tab, (run, prompt, lang, do) in zip(tabs, wanted, strict=True):
            link = f"{server.url}/{pages}?run={run}&prompt={prompt.replace(' ', '+')}&lang={lang}"
            tab.goto(link + (f"&do={do}" if do and pages == "interventions" else ""), wait_until="commit")
        for tab, (run, prompt, lang, do) in zip(tabs, wanted, strict=True):
            settled(tab)
            assert widget(tab, "prompt").locator("textarea").input_value() == prompt
            assert f"run={run}" in tab.url
            title = {"interventions": ("Interventions", "干预"), "lens": ("Lens", "透镜")}[pages][lang == "zh"]
            assert tab.get_by_role("heading", level=1).first.inner_text() == title
            if pages == "interventions":
                assert widget(tab, "change_0").count() == bool(do)
                assert widget(tab, "change_1").count() == 0
    for tab in tabs[1:]:
        tab.close()
