"""What the pictures say in a real browser is what the tensors say, whatever the tokens look like."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tests.apps.training import MARKUP
from tests.e2e.serving import PATIENCE, Server, settled, widget

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

HOVER = """
([key, row, column]) => {
  const plot = document.querySelector(`.st-key-${key} .js-plotly-plot`)
  const {xaxis, yaxis} = plot._fullLayout
  const box = plot.getBoundingClientRect()
  return [box.left + xaxis._offset + xaxis.l2p(column), box.top + yaxis._offset + yaxis.l2p(row)]
}
"""


def open_link(page: Page, server: Server, name: str, **link: str) -> None:
    page.goto(f"{server.url}/{name}?{urlencode({'run': 'tiny', 'lang': 'en', **link})}")
    settled(page)


def tensor(server: Server, prompt: str, layer: int) -> object:
    """The attention pattern [head, query, key] of the model itself."""
    from lab.models import open_model

    model = open_model(server.runs / "tiny")
    _, cache = model.run_with_cache(prompt, names_filter=f"blocks.{layer}.attn.hook_pattern")
    return cache[f"blocks.{layer}.attn.hook_pattern"][0]


def test_an_attention_cell_is_the_tensors(server: Server, page: Page) -> None:
    prompt, layer, head, query, key = "the cat the cat the", 1, 1, 12, 5
    open_link(page, server, "attention", prompt=prompt, layer=str(layer), head=str(head))
    plot = page.locator(".st-key-attention_head .js-plotly-plot")
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    x, y = page.evaluate(HOVER, ["attention_head", query, key])
    page.mouse.move(x - 3, y - 3)
    page.mouse.move(x, y, steps=4)
    label = page.locator(".st-key-attention_head .hoverlayer .hovertext")
    label.first.wait_for(timeout=PATIENCE)
    said = label.first.text_content() or ""
    assert f"query {query}" in said and f"key {key}" in said
    read = float(re.search(r"attention ([\d.]+)", said.replace("−", "-")).group(1))
    assert read == pytest.approx(float(tensor(server, prompt, layer)[head, query, key]), abs=6e-4)


def test_repeated_tokens_keep_their_places(server: Server, page: Page) -> None:
    open_link(page, server, "attention", prompt="catcatcat", layer="0", head="0")
    shape = page.evaluate(
        "() => { const p = document.querySelector('.st-key-attention_head .js-plotly-plot');"
        " return [p._fullLayout.xaxis.ticktext.length, p._fullLayout.yaxis.ticktext.length] }"
    )
    assert shape == [9, 9]


def test_markup_shows_as_it_was_typed_and_nothing_runs(server: Server, page: Page) -> None:
    open_link(page, server, "lens", prompt=MARKUP)
    tokens = widget(page, "lens_strip").locator(".token")
    tokens.first.wait_for(timeout=PATIENCE)
    assert "".join(tokens.all_inner_texts()).replace("\u2423", " ").replace("␣", " ") == MARKUP
    tokens.nth(3).hover()
    assert widget(page, "lens_strip").locator(".card").is_visible()
    assert page.locator("main b", has_text=re.compile("^x$")).count() == 0
    open_link(page, server, "generate", prompt=MARKUP)
    widget(page, "generate.go").get_by_role("button").click()
    settled(page)
    assert page.get_by_text("<b>x</b> </script>").first.is_visible()


def test_a_click_on_a_token_selects_it_everywhere(server: Server, page: Page) -> None:
    open_link(page, server, "lens", prompt="the cat sat")
    widget(page, "lens_strip").locator(".token").nth(4).click()
    page.wait_for_url(re.compile(r"token=4"), timeout=PATIENCE)
    settled(page)
    page.get_by_role("link", name="Attention").click()
    page.wait_for_url(re.compile(r"/attention\?.*token=4"), timeout=PATIENCE)
    settled(page)
    assert page.get_by_text("From 4:").first.is_visible()


def test_a_click_on_a_tile_picks_the_head(server: Server, page: Page) -> None:
    open_link(page, server, "attention", prompt="the cat sat", layer="0", head="0")
    side = len("the cat sat") + 1
    # Later layers are drawn higher: row 0 of the picture is layer 1.
    x, y = page.evaluate(HOVER, ["attention_mosaic", side / 2, side * 1.5])
    page.mouse.click(x, y)
    page.wait_for_url(re.compile(r"layer=1.*head=1|head=1.*layer=1"), timeout=PATIENCE)


def test_the_arrow_keys_move_along_the_strip(server: Server, page: Page) -> None:
    open_link(page, server, "lens", prompt="the cat sat", token="2")
    strip = widget(page, "lens_strip").locator(".strip")
    strip.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("token=4"), timeout=PATIENCE)


def test_an_export_opens_offline_and_asks_for_nothing(
    server: Server, page: Page, browser: Browser, tmp_path: Path
) -> None:
    open_link(page, server, "attention", prompt="the cat sat", layer="0", head="1")
    with page.expect_download(timeout=PATIENCE) as waiting:
        page.locator(".st-key-export_attention-tiny_12-L0H1").get_by_role("button", name="HTML").click()
    file = tmp_path / "attention.html"
    waiting.value.save_as(file)
    context = browser.new_context(offline=True)
    opened, asked = context.new_page(), []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(file.as_uri())
    opened.locator(".js-plotly-plot .heatmaplayer").first.wait_for(state="attached", timeout=PATIENCE)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_the_language_switches_and_stays(server: Server, page: Page) -> None:
    open_link(page, server, "anatomy")
    page.get_by_role("button", name="中文").or_(page.get_by_role("radio", name="中文")).first.click()
    page.wait_for_url(re.compile("lang=zh"), timeout=PATIENCE)
    settled(page)
    assert page.get_by_role("heading", name="解剖").is_visible()
    page.reload()
    settled(page)
    assert page.get_by_role("heading", name="解剖").is_visible()


def test_bad_links_are_clamped_in_the_browser_too(server: Server, page: Page) -> None:
    open_link(page, server, "attention", prompt="cat", layer="99", head="x", step="777", token="-3")
    assert page.get_by_text("not available here").count() >= 3
    page.reload()
    settled(page)
    assert "layer=1" in page.url and "layer=99" not in page.url
