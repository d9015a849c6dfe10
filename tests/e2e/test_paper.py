"""What is handed over is for paper: light, without tools, whatever the page looks like."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.serving import PATIENCE, Server, settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

CHARTS = ("lens", "attention", "contributions", "interventions", "compare", "studies")


def luminance(colour: str) -> float:
    red, green, blue = (int(n) / 255 for n in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.fixture
def dark(browser: Browser) -> Page:
    context = browser.new_context(
        viewport={"width": 1400, "height": 1000}, accept_downloads=True, locale="zh-CN", color_scheme="dark"
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", CHARTS)
def test_a_dark_page_hands_over_a_light_one(server: Server, dark: Page, tmp_path: Path, name: str) -> None:
    dark.goto(f"{server.url}/{name}?run=tiny" + ("&prompt=the+cat+sat" if name != "studies" else ""))
    settled(dark)
    button = dark.locator("[class*='st-key-export_'] [data-testid=stDownloadButton] button").filter(has_text="HTML")
    button.first.wait_for(timeout=PATIENCE)
    assert luminance(dark.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")) < 0.2
    with dark.expect_download(timeout=PATIENCE) as handed:
        button.first.click()
    path = tmp_path / "page.html"
    handed.value.save_as(path)
    opened = dark.context.new_page()
    opened.goto(path.as_uri())
    opened.wait_for_function("document.querySelectorAll('.main-svg text').length > 2", timeout=PATIENCE)
    page_colour = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert luminance(page_colour) > 0.9
    # Numbers in dark cells are light on purpose; titles and ticks are not in cells
    titles = opened.evaluate(
        "Array.from(document.querySelectorAll('.gtitle, .xtick text, .ytick text')).map(t => getComputedStyle(t).fill)"
    )
    assert titles and all(luminance(colour) < 0.45 for colour in titles), titles
    assert re.search(r"[一-鿿]", opened.inner_text("body")), "it is in the reader's language"
    opened.close()


def test_a_photograph_has_no_tools_in_it(dark: Page, tmp_path: Path) -> None:
    import plotly.graph_objects as go
    from PIL import Image

    from apps.widgets.export_png import photographed, without_tools
    from lab.plots import to_offline_html

    html = to_offline_html(go.Figure(go.Bar(y=[1, 2])), "bars")
    shown = {}
    for name, text in (("page", html), ("picture", without_tools(html))):
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        dark.goto(path.as_uri())
        dark.wait_for_function("document.querySelectorAll('.main-svg').length > 0", timeout=PATIENCE)
        shown[name] = dark.evaluate(
            "Array.from(document.querySelectorAll('.modebar-btn')).some(b => b.getClientRects().length > 0)"
        )
    assert shown == {"page": True, "picture": False}
    (tmp_path / "picture.png").write_bytes(photographed(html))
    image = Image.open(tmp_path / "picture.png").convert("L")
    assert image.getpixel((2, 2)) > 240 and image.getextrema()[0] < 120  # a white page with something on it
