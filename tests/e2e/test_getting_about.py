"""Going from page to page: what a reader set or was given is there again, and the Back button goes back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.screenshots import PAGES
from tests.e2e.serving import PATIENCE, Server, settled, widget
from tests.e2e.test_reading import open_link

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PROMPT = "lily gave the ball"
# Every control of the page and what it shows: texts, numbers, choices, sliders, switches, by the key they have.
CONTROLS = """() => Object.fromEntries(Array.from(
  document.querySelectorAll('[data-testid=stMain] [class*="st-key-"], [data-testid=stSidebar] [class*="st-key-"]'),
  box => [
    Array.from(box.classList).find(name => name.startsWith("st-key-")),
    Array.from(box.querySelectorAll('input, textarea, [role=slider], [aria-checked=true], [data-baseweb=select]'), at =>
      at.type === "file" ? "" :
      ["checkbox", "radio"].includes(at.type) ? String(at.checked) :
      at.value || at.getAttribute("aria-valuetext") || at.getAttribute("aria-valuenow") || at.innerText || "")
  ]).filter(pair => pair[1].length))"""


def go(page: Page, name: str) -> None:
    """A click in the sidebar."""
    page.locator(f"[data-testid=stSidebarNav] a[href$='/{'' if name == 'train' else name}']").click()
    page.wait_for_url(re.compile(rf"/{'' if name == 'train' else name}\\?.*run="), timeout=PATIENCE)
    settled(page)


def test_a_prompt_and_a_token_of_a_link_go_along_untouched(server: Server, page: Page) -> None:
    open_link(page, server, "attention", prompt=PROMPT, token="3")
    for name in ("lens", "contributions", "runs", "attention"):
        go(page, name)
        if name != "runs":
            assert widget(page, "prompt").locator("textarea").input_value() == PROMPT
        assert f"prompt={PROMPT.replace(' ', '+')}" in page.url or name == "runs"
        assert "token=3" in page.url or name == "runs"
    assert page.get_by_text("From 3:").first.is_visible()


def test_no_control_forgets_what_it_showed(server: Server, page: Page) -> None:
    """Two rounds through all pages, with nothing touched but the sidebar."""
    open_link(page, server, "")
    rounds: list[dict[str, dict[str, list[str]]]] = []
    for _ in range(2):
        seen = {}
        for name in PAGES:
            go(page, name)
            seen[name] = page.evaluate(CONTROLS)
        rounds.append(seen)
    assert sum(len(controls) for controls in rounds[0].values()) > 40
    for name in PAGES:
        assert rounds[0][name] == rounds[1][name], name


def test_back_goes_back(server: Server, page: Page) -> None:
    open_link(page, server, "attention", prompt=PROMPT)
    for name in ("lens", "contributions"):
        go(page, name)
    for name in ("lens", "attention"):
        for _ in range(2):  # a page's bare address, and the one with the selection
            if f"/{name}?" not in page.url:
                page.go_back()
                page.wait_for_timeout(500)
                settled(page)
        page.wait_for_url(re.compile(rf"/{name}\?.*prompt="), timeout=PATIENCE)
        assert page.locator("h1").first.inner_text().lower() == name
        assert widget(page, "prompt").locator("textarea").input_value() == PROMPT


@pytest.mark.parametrize("name", [*PAGES, "interventions?kind=knockout", "interventions?kind=steer&steer_by=probe"])
def test_a_change_of_language_changes_words_alone(server: Server, page: Page, name: str) -> None:
    """To Chinese and back: choices stay what they were, in the words of the language, and nothing is complained of."""
    name, _, link = ("" if name == "train" else name).partition("?")
    asked = dict(pair.split("=") for pair in link.split("&") if pair)

    def controls() -> dict[str, list[str]]:
        seen: dict[str, list[str]] = page.evaluate(CONTROLS)
        return {key: values for key, values in seen.items() if key != "st-key-lang"}

    open_link(page, server, name, **(asked | {"lang": "zh"}))
    chinese = controls()
    open_link(page, server, name, **asked)
    english = controls()
    for switch, expected in (("中文", chinese), ("English", english)):
        widget(page, "lang").get_by_role("radio", name=switch).click()
        page.wait_for_url(re.compile(f"lang={'en' if switch == 'English' else 'zh'}"), timeout=PATIENCE)
        settled(page)
        assert page.locator("[class*=st-key-notice_]").count() == 0
        assert controls() == expected
