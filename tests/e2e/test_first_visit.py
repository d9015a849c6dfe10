"""A first visit in a real browser: train a tiny model, reload, stop, resume, let it write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.runs import Run, list_runs
from tests.e2e.serving import PATIENCE, Server, held, settled, wait_for, wait_until, widget

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_train_reload_stop_resume_and_write(empty: tuple[Server, Path], page: Page) -> None:
    server, runs = empty
    page.goto(server.url)
    settled(page)
    widget(page, "tiny_train").get_by_role("button").dblclick()  # an impatient reader; one job all the same
    page.wait_for_url(re.compile("run=first-look"), timeout=PATIENCE)

    run = Run(runs / "first-look")
    with held(wait_for(run, "running", step=20)):  # 300 steps can take less time than a starved browser's reload
        page.reload()  # F5: a new session, which finds the run by its address and its folder
        settled(page)
        assert "run=first-look" in page.url
        assert page.get_by_text(re.compile(r"training, step \d+ of 300")).first.is_visible()
        assert [found.id for found in list_runs(runs)] == ["first-look"], "a second job was started"

        widget(page, "stop").get_by_role("button").click()
        wait_until(lambda: run.requested("stop"), "the stop button asked for nothing")
    assert wait_for(run, "stopped", "done").state == "stopped"
    page.get_by_text(re.compile(r"Stopped at step \d+ of 300")).wait_for(timeout=PATIENCE)
    stopped_at = run.status().step
    assert 20 <= stopped_at < 300

    widget(page, "resume").get_by_role("button").click()
    wait_for(run, "done")
    page.get_by_text("done, 300 steps").first.wait_for(timeout=PATIENCE)
    assert [row["step"] for row in run.metrics()] == sorted({row["step"] for row in run.metrics()})
    curves = "document.querySelectorAll('.st-key-loss_curves .js-plotly-plot').length === 1"
    page.wait_for_function(curves, timeout=PATIENCE)  # for a moment the old figure stands beside the new one

    page.goto(f"{server.url}/generate?run=first-look")
    settled(page)
    texts = []
    for _ in range(2):
        widget(page, "generate.go").get_by_role("button").click()
        settled(page)
        widget(page, "generated_strip").locator(".token").first.wait_for(timeout=PATIENCE)
        texts.append(widget(page, "generated_strip").locator(".token").all_inner_texts())
    assert len(texts[0]) > 20  # more than the prompt; a story may end early
    assert texts[0] == texts[1], "the same seed wrote two texts"
