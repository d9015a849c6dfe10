"""Several runs in a real browser: as many train as there are places, the others wait, and go on by themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.runs import Run, list_runs, queue
from tests.apps.test_jobs import config
from tests.e2e.serving import PATIENCE, Server, settled, wait_for, widget

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]  # test_jobs and test_runs_page say the same without a browser


def left_off(runs: Path, name: str, steps: int, seed: int) -> Run:
    """A run that was stopped before its first step, for the page to go on with."""
    run = Run(runs / name).create(config(runs, steps, seed).to_dict())
    run.write_status("stopped", 0, steps, process=None)
    return run


def press(page: Page, server: Server, run: Run, button: str, then: str) -> None:
    """Press a button of the Runs page for this run, and wait until the page says `then` of it."""
    page.goto(f"{server.url}/runs?run={run.id}&lang=en")
    settled(page)
    widget(page, f"runs_{button}").get_by_role("button").click()
    page.get_by_text(re.compile(rf"{run.id}.* — .*{then}")).first.wait_for(timeout=PATIENCE)


def test_runs_wait_their_turn_change_places_leave_and_start_by_themselves(
    empty: tuple[Server, Path], page: Page
) -> None:
    server, runs = empty
    runs.mkdir(exist_ok=True)
    long = left_off(runs, "long", 10_000_000, 0)
    first, second, third = (left_off(runs, name, 3, at + 1) for at, name in enumerate(("first", "second", "third")))

    page.goto(f"{server.url}/runs?run=long&lang=en")
    settled(page)
    places = widget(page, "runs_places").get_by_role("spinbutton")
    if places.is_enabled():  # a machine of one core has one place anyway
        places.fill("1")
        places.press("Enter")
        settled(page)
    assert queue.places(runs) == 1

    press(page, server, long, "resume", "training")
    wait_for(long, "running", step=1)
    press(page, server, first, "resume", "waits, place 1")
    press(page, server, second, "resume", "waits, place 2")
    press(page, server, third, "resume", "waits, place 3")
    assert queue.waiting_runs(runs) == [first, second, third]
    assert page.get_by_text("1 of 1").first.is_visible()  # training now, of the places there are

    press(page, server, third, "first", "waits, place 1")
    assert queue.waiting_runs(runs) == [third, first, second]
    press(page, server, first, "stop", "stopped at step 0")
    assert queue.waiting_runs(runs) == [third, second] and first.status().state == "stopped"
    assert (long.status().state, third.status().step, second.status().step) == ("running", 0, 0)

    press(page, server, long, "stop", "stopped at step")
    page.goto(f"{server.url}/runs?run=third&lang=en")  # and from here on nobody touches anything
    page.get_by_text(re.compile("third.* — .*done, 3 steps")).first.wait_for(timeout=2 * PATIENCE)
    wait_for(second, "done")
    assert third.status().heartbeat <= second.status().heartbeat, "the one that was moved to the front came first"
    assert first.status().state == "stopped" and {run.id for run in list_runs(runs)} == {
        "long", "first", "second", "third",
    }  # fmt: skip
