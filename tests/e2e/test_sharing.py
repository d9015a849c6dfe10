"""One server, several people: links give the same view, and what one tab does another never hears of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.serving import PATIENCE, Server, settled, widget
from tests.e2e.test_reading import HOVER, open_link

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

VALUES = "key => Array.from(document.querySelector(`.st-key-${key} .js-plotly-plot`).calcdata[0], bar => bar.s)"
CELLS = "key => document.querySelector(`.st-key-${key} .js-plotly-plot`).calcdata[0][0].z.map(row => Array.from(row))"
PROMPT = "lily gave the ball"


def strip(page: Page) -> list[str]:
    """The tokens of the text that was written."""
    widget(page, "generated_strip").locator(".token").first.wait_for(timeout=PATIENCE)
    return widget(page, "generated_strip").locator(".token").all_inner_texts()


def test_contribution_bars_sum_to_the_models_logit(server: Server, page: Page) -> None:
    from lab.models import open_model

    open_link(page, server, "contributions", prompt=PROMPT, token="6")
    page.locator(".st-key-contribution_bars .js-plotly-plot").wait_for(timeout=PATIENCE)
    values = page.evaluate(VALUES, "contribution_bars")
    logits = open_model(server.runs / "tiny")(PROMPT)[0, 6].detach()
    assert len(values) > 3
    assert sum(values) == pytest.approx(float(logits.max()), abs=1e-4)


def test_a_link_gives_another_reader_the_same_view(server: Server, page: Page, browser: Browser) -> None:
    open_link(page, server, "attention", prompt=PROMPT)
    side = len(PROMPT) + 1
    page.locator(".st-key-attention_mosaic .js-plotly-plot").wait_for(timeout=PATIENCE)
    page.mouse.click(*page.evaluate(HOVER, ["attention_mosaic", side / 2, side * 1.5]))  # the tile of L1H1
    page.wait_for_url(re.compile(r"layer=1.*head=1|head=1.*layer=1"), timeout=PATIENCE)
    settled(page)
    page.get_by_text("L1H1").first.wait_for(timeout=PATIENCE)
    cells = page.evaluate(CELLS, "attention_head")
    context = browser.new_context(locale="zh-CN")
    other = context.new_page()
    other.goto(page.url)
    settled(other)
    other.locator(".st-key-attention_head .js-plotly-plot").wait_for(timeout=PATIENCE)
    assert other.url == page.url  # the language, too, is the link's
    assert other.evaluate(CELLS, "attention_head") == cells
    context.close()


def test_two_tabs_at_once_never_mix(server: Server, page: Page) -> None:
    """Each has its run, prompt and interventions; both work at the same moment."""
    second = page.context.new_page()
    open_link(page, server, "generate", prompt=PROMPT, run="tiny")
    open_link(second, server, "generate", prompt="tom sat", run="postnorm")
    texts = []
    for tab in (page, second):
        widget(tab, "generate.go").get_by_role("button").click()
        settled(tab)
        texts.append(strip(tab))
    assert "".join(texts[0]).replace("␣", " ").startswith(PROMPT) and texts[0] != texts[1]

    for tab in (page, second):  # both at once, neither waits for the other
        widget(tab, "generate.go").get_by_role("button").click()
    open_tab = page.context.new_page()
    open_link(open_tab, server, "interventions", run="tiny", prompt=PROMPT, do="scale,site=resid_post,layer=1,factor=9")
    for tab, text in zip((page, second), texts, strict=True):
        settled(tab)
        assert strip(tab) == text
    assert "run=tiny" in page.url and "run=postnorm" in second.url and "do=" not in page.url + second.url
    page.get_by_role("link", name="Interventions").click()
    page.wait_for_url(re.compile("/interventions"), timeout=PATIENCE)
    settled(page)
    assert page.get_by_text("Nothing is changed yet").is_visible()
    assert not open_tab.get_by_text("Nothing is changed yet").count()
