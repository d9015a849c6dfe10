"""Scrubbing through training in a real browser: keys move the slider, the film plays, a click on a curve follows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apps.test_dynamics import write_film
from tests.e2e.serving import PATIENCE, Server, settled, widget
from tests.e2e.test_reading import HOVER, open_link

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

COLOURS = "key => Array.from(document.querySelector(`.st-key-${key} .js-plotly-plot`).calcdata[0][0].z[1])"


def pattern(runs: Path, step: int, prompt: str) -> list[float]:
    """Row 1 of the attention pattern of L1H1 of the model itself, at a checkpoint."""
    from lab.models import open_model

    name = "blocks.1.attn.hook_pattern"
    _, cache = open_model(f"{runs / 'tiny'}@{step}").run_with_cache(prompt, names_filter=name)
    return [float(value) for value in cache[name][0, 1, 1, :2]]


def at_step(page: Page, step: int | None) -> None:
    """Wait until the address names this checkpoint (None: the latest, which it does not name) and the page is drawn."""
    there = re.compile(rf"[?&]step={step}(&|$)") if step is not None else re.compile(r"^(?!.*[?&]step=)")
    page.wait_for_url(there, timeout=PATIENCE)
    settled(page)


def test_the_arrow_keys_scrub_through_training_and_the_picture_follows(server: Server, page: Page) -> None:
    prompt = "the cat"
    open_link(page, server, "attention", prompt=prompt, layer="1", head="1")
    thumb = widget(page, "step").get_by_role("slider")
    thumb.focus()
    page.keyboard.press("ArrowLeft")  # from the latest to its own step, 12
    page.keyboard.press("ArrowLeft")
    at_step(page, 6)
    page.locator(".st-key-attention_head .js-plotly-plot").wait_for(timeout=PATIENCE)
    assert page.evaluate(COLOURS, "attention_head")[:2] == pytest.approx(pattern(server.runs, 6, prompt), abs=1e-5)
    thumb.focus()
    page.keyboard.press("ArrowLeft")
    at_step(page, 0)
    assert page.evaluate(COLOURS, "attention_head")[:2] == pytest.approx(pattern(server.runs, 0, prompt), abs=1e-5)
    page.get_by_role("link", name="Lens").click()
    page.wait_for_url(re.compile(r"/lens\?.*step=0"), timeout=PATIENCE)
    page.reload()
    settled(page)
    assert thumb.get_attribute("aria-valuetext") == "0"


# Every message from the server reaches the page only after this many milliseconds, as on a busy machine.
LATE = """delay => { const Real = WebSocket; window.WebSocket = class extends Real {
  addEventListener(kind, hear, ...rest) {
    super.addEventListener(kind, kind === "message" ? event => setTimeout(() => hear(event), delay) : hear, ...rest);
  }
}; }"""


def play(page: Page, server: Server, late: int = 0) -> list[str]:
    """Begin the film, from its end and so at step 0; the addresses the page has from now on."""
    if late:
        page.add_init_script(f"({LATE})({late})")
    open_link(page, server, "attention", prompt="the cat", layer="1", head="1")
    page.wait_for_timeout(late)
    seen: list[str] = []
    page.on("framenavigated", lambda frame: seen.append(frame.url))
    widget(page, "film_play").get_by_role("button").click()
    widget(page, "film_play").get_by_role("button", name="Pause").first.wait_for(timeout=PATIENCE)
    return seen


@pytest.mark.parametrize("late", [0, 1300])  # the second is longer than the film's pace
def test_the_film_plays_to_the_end(server: Server, page: Page, late: int) -> None:
    seen = play(page, server, late)
    widget(page, "film_play").get_by_role("button", name="Play").first.wait_for(timeout=PATIENCE)
    page.wait_for_timeout(late)
    settled(page)
    steps = [found[1] if (found := re.search(r"[?&]step=(\d+)", url)) else "latest" for url in seen]
    assert [step for at, step in enumerate(steps) if at == 0 or step != steps[at - 1]] == ["0", "6", "latest"]
    assert page.evaluate(COLOURS, "attention_head")[:2] == pytest.approx(pattern(server.runs, 12, "the cat"), abs=1e-5)


@pytest.mark.parametrize("way", ["pause", "slider", "page"])
def test_the_film_halts_at_once_when_the_reader_acts(server: Server, page: Page, way: str) -> None:
    play(page, server)
    if way == "pause":
        widget(page, "film_play").get_by_role("button").click()
    elif way == "slider":
        widget(page, "step").get_by_role("slider").focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        page.wait_for_url(re.compile("step=12"), timeout=PATIENCE)
    else:
        page.get_by_role("link", name="Lens").click()
        page.wait_for_url(re.compile("/lens"), timeout=PATIENCE)
    widget(page, "film_play").get_by_role("button", name="Play").first.wait_for(timeout=PATIENCE)
    settled(page)
    there = page.url
    page.wait_for_timeout(2500)  # two ticks, were there any
    assert page.url == there and widget(page, "film_play").get_by_role("button", name="Play").first.is_visible()


def test_a_click_on_the_curves_shows_that_head_at_that_checkpoint(server: Server, page: Page) -> None:
    write_film(server.runs / "postnorm")
    page.goto(f"{server.url}/dynamics?run=postnorm&lang=en&layer=0&head=1")
    settled(page)
    page.locator(".st-key-dynamics_curves .js-plotly-plot").scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    # The film is made up; of its steps the run keeps a checkpoint at 0, which is at 0 on the axis too.
    x, y = page.evaluate(HOVER, ["dynamics_curves", 0.15, 0])
    page.mouse.move(x - 2, y - 2)
    page.mouse.move(x, y, steps=4)
    page.mouse.click(x, y)
    page.wait_for_url(re.compile(r"layer=1"), timeout=PATIENCE)
    at_step(page, 0)
    assert "head=1" not in page.url  # head 0 is the default
    assert page.get_by_text("L1H0: the largest change of induction").is_visible()


def test_a_click_in_the_live_part_of_a_run_in_training_reaches_the_choices_outside_it(
    server: Server, page: Page
) -> None:
    write_film(server.runs / "running")
    page.goto(f"{server.url}/dynamics?run=running&lang=en&layer=0&head=1")
    settled(page)
    widget(page, "dynamics_strongest").get_by_role("button").click()
    page.wait_for_url(re.compile(r"[?&]layer=1"), timeout=PATIENCE)
    settled(page)
    assert page.get_by_text("L1H0: the largest change of induction").is_visible()


def test_the_slider_follows_the_newest_checkpoint_while_a_run_writes_more(server: Server, page: Page) -> None:
    whole, growing = server.runs / "single", server.runs / "growing"
    shutil.copytree(whole, growing, ignore=shutil.ignore_patterns("step_*6", "step_*12"))
    page.goto(f"{server.url}/lens?run=growing&lang=en")
    settled(page)
    thumb = widget(page, "step").get_by_role("slider")
    assert thumb.get_attribute("aria-valuetext") == "latest (0)"
    shutil.copytree(whole / "checkpoints", growing / "checkpoints", dirs_exist_ok=True)
    page.get_by_role("link", name="Attention").click()
    page.wait_for_url(re.compile("/attention"), timeout=PATIENCE)
    settled(page)
    assert thumb.get_attribute("aria-valuetext") == "latest (12)"
    shutil.rmtree(growing)
