"""A model of another maker in a real browser: found, weighed, loaded, and looked into."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.runs import delete_run
from tests.e2e.serving import PATIENCE, Server, settled, widget

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

NAME = "bacteria"


@pytest.fixture
def folder(server: Server, shared: Path) -> Iterator[str]:
    """A GPT-2 folder below the served runs, gone again afterwards with the run it became."""
    there = server.runs / "models" / NAME
    shutil.copytree(shared / "models" / "gpt2-arch-mgm", there)
    there.chmod(0o755)
    yield NAME
    shutil.rmtree(server.runs / "models")
    if (server.runs / NAME).is_dir():
        delete_run(server.runs / NAME, server.runs)


def test_a_gpt2_folder_is_opened_and_looked_into(server: Server, page: Page, folder: str) -> None:
    page.goto(f"{server.url}/lens?lang=en&run=tiny")
    settled(page)
    page.get_by_text("Open GPT-2 or another model").click()
    settled(page)
    typed = widget(page, "elsewhere").get_by_role("textbox")
    typed.fill("/etc/passwd")
    typed.press("Enter")
    page.get_by_text("A path cannot be opened from the browser").wait_for(timeout=PATIENCE)
    typed.fill(folder)
    typed.press("Enter")
    page.get_by_text(re.compile("gpt2, 8,924,928 parameters")).wait_for(timeout=PATIENCE)
    widget(page, "elsewhere_go").get_by_role("button").click()
    page.wait_for_url(re.compile(f"run={folder}"), timeout=PATIENCE)
    settled(page)
    prompt = widget(page, "prompt").get_by_role("textbox")
    prompt.fill("<bos> g__Bacteroides")
    prompt.press("Control+Enter")
    page.wait_for_url(re.compile("g__Bacteroides"), timeout=PATIENCE)
    settled(page)
    tokens = widget(page, "lens_strip").locator(".token")
    assert tokens.all_inner_texts() == ["<bos>", "g__Bacteroides"]
    tokens.nth(1).hover()
    card = widget(page, "lens_strip").locator(".card")
    assert "g__Parabacteroides" in card.inner_text()
    page.reload()  # the address keeps the model
    settled(page)
    assert page.get_by_text("not trained here: weights of bacteria").is_visible()
