"""The tour of a first visit in a real browser: train, find the induction head, cut it out, see the loss jump, go on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest

from apps.widgets.guide import LOOKED_AT, PROMPT, STEM
from lab.runs import Run
from tests.e2e.serving import PATIENCE, Server, settled, wait_for, widget
from tests.e2e.test_checkpoints import COLOURS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]  # test_picker_guide walks through the same steps without a browser

ROW = COLOURS.replace("z[1]", f"z[{LOOKED_AT}]")


def scores(run: Run) -> list[list[float]]:
    """Induction score [layer][head] of the trained model itself."""
    from lab.analysis import head_scores
    from lab.models import open_model

    return head_scores(open_model(run.path)).induction.tolist()


def forward(page: Page, name: str) -> None:
    """The tour's next step, which is on the page called `name`."""
    widget(page, "guide_next").get_by_role("button").click()
    page.wait_for_url(re.compile(f"/{name}"), timeout=PATIENCE)
    settled(page)


def losses(page: Page) -> tuple[float, float]:
    """(mean loss after, the change) as the page says them; of no change it says nothing."""
    metric = page.locator("[data-testid=stMetric]", has_text="Mean loss")
    value = metric.locator("[data-testid=stMetricValue]").inner_text()
    changes = metric.locator("[data-testid=stMetricDelta]").all_inner_texts()
    return float(value), float(changes[0].replace("−", "-")) if changes else 0.0


def test_two_minutes_from_nothing_to_a_head_cut_out(empty: tuple[Server, Path], page: Page) -> None:
    server, runs = empty
    page.goto(f"{server.url}/?lang=en")
    settled(page)
    widget(page, "guide_begin").get_by_role("button").click()
    widget(page, "guide_start").get_by_role("button").click(timeout=PATIENCE)
    page.wait_for_url(re.compile(f"run={STEM}"), timeout=PATIENCE)
    run = Run(runs / STEM)
    wait_for(run, "done", seconds=400)
    widget(page, "guide_next").get_by_role("button").wait_for(timeout=PATIENCE)  # the page noticed by itself

    forward(page, "attention")
    found = scores(run)
    layer, head = max(
        ((a, b) for a, row in enumerate(found) for b in range(len(row))), key=lambda at: found[at[0]][at[1]]
    )
    assert found[layer][head] > 0.5
    chosen = dict(parse_qsl(urlsplit(page.url).query))
    assert (int(chosen.get("layer", 0)), int(chosen.get("head", 0))) == (layer, head)
    # From the first letter of the third time it looks to the letter after the same letter, either time before.
    row = page.evaluate(ROW, "attention_head")
    assert max(range(LOOKED_AT + 1), key=lambda at: row[at]) in (PROMPT.index("a"), PROMPT.index("a", 8))

    forward(page, "interventions")
    whole_and_cut, jump = losses(page)
    assert jump > 0.3 and whole_and_cut > jump
    widget(page, "remove_0").get_by_role("button").click()
    page.wait_for_function("() => !location.search.includes('do=')", timeout=PATIENCE)
    settled(page)
    whole, nothing = losses(page)
    assert nothing == 0 and whole == pytest.approx(whole_and_cut - jump, abs=0.002)

    forward(page, "lens")
    prompts = page.locator("[class*=st-key-guide_prompt_] button")
    assert prompts.count() == 5
    page.get_by_role("button", name="从前有一个小女孩").click()
    page.wait_for_url(re.compile("%E4%BB%8E"), timeout=PATIENCE)
    settled(page)
    assert page.get_by_text(re.compile("never saw|does not know")).first.is_visible()  # this model read letters only
    widget(page, "guide_leave").get_by_role("button").click()
    page.wait_for_function("() => !location.search.includes('guide=')", timeout=PATIENCE)
