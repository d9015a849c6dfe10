"""Cut out the induction head by a click in a real browser, and see the loss jump; another tab sees nothing of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.serving import PATIENCE, Server, settled, widget
from tests.e2e.test_reading import HOVER

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PROMPT = "ab" * 14


def plant(runs: Path) -> None:
    """A run whose induction head is known: L1H0, written by hand."""
    import torch

    from lab.analysis import planted_induction
    from lab.models import save_as_run
    from lab.tokenizers import train_tokenizer

    if (runs / "planted").exists():
        return
    tokenizer = train_tokenizer("char", "abcdefgh")
    model = planted_induction(tokenizer.vocab_size, 32)
    model.tokenizer = tokenizer
    with torch.no_grad():
        model.unembed.weight.mul_(0.15)  # softer: as planted it is sure of itself before there is anything to copy
    save_as_run(model, runs / "planted", corpus="written by hand")


def mean_loss(page: Page) -> float:
    shown = page.locator("[data-testid=stMetric]", has_text="Mean loss").locator("[data-testid=stMetricValue]")
    return float(shown.inner_text())


def click_head(page: Page, layer: int, head: int) -> None:
    plot = page.locator(".st-key-intervention_map .js-plotly-plot")
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    x, y = page.evaluate(HOVER, ["intervention_map", layer, head])
    page.mouse.move(x - 2, y - 2)
    page.mouse.move(x, y, steps=4)
    page.mouse.click(x, y)


def test_ablating_the_induction_head_raises_the_loss_and_only_here(server: Server, page: Page) -> None:
    plant(server.runs)
    link = f"{server.url}/interventions?run=planted&lang=en&prompt={PROMPT}"
    page.goto(link)
    settled(page)
    whole = mean_loss(page)

    click_head(page, 1, 1)  # an idle head: nothing depends on it
    page.wait_for_url(re.compile("do=zero"), timeout=PATIENCE)
    settled(page)
    assert mean_loss(page) == pytest.approx(whole, abs=0.1)

    click_head(page, 1, 0)  # the induction head: the repeated half is no longer foreseen
    page.wait_for_url(re.compile("head%3D0|head=0"), timeout=PATIENCE)
    settled(page)
    broken = mean_loss(page)
    assert broken > whole + 1.5

    other = page.context.new_page()
    other.goto(link)
    settled(other)
    assert mean_loss(other) == whole
    other.close()

    page.reload()
    settled(page)
    assert mean_loss(page) == broken
    widget(page, "remove_all").get_by_role("button").click()
    page.wait_for_function("() => !location.search.includes('do=')", timeout=PATIENCE)
    settled(page)
    assert mean_loss(page) == whole
    # The same head again: a click does it, the next one undoes it.
    click_head(page, 1, 0)
    page.wait_for_url(re.compile("do=zero"), timeout=PATIENCE)
    settled(page)
    assert mean_loss(page) == broken
    click_head(page, 1, 0)
    page.wait_for_function("() => !location.search.includes('do=')", timeout=PATIENCE)
    settled(page)
    assert mean_loss(page) == whole
