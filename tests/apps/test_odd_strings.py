"""Two hundred strings and links that nobody would type: no exception, nothing unescaped, no selection lost.

Most of them go through the functions that every page sends its text through; some through whole pages.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps import elsewhere
from apps.prompt import tokenize
from apps.widgets.document import DOCUMENT
from apps.widgets.plain import plain
from tests.apps.opening import PAGES, checked, open_page

QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PARTS = (
    "<b>",
    "</script>",
    "&amp;",
    "$x$",
    ":red[",
    "](x)",
    "`",
    "\\",
    "\u202e",
    "\u200d",
    "\x00",
    "e\u0301",
    "👩‍🚀",
    "שלום",
    "从前",
)
odd = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=8)), max_size=6).map("".join)
MARKDOWN = re.compile(r"(?<!\\)(?:\\\\)*[`*_\[\]$<>]")


@pytest.fixture(scope="module")
def tokenizers() -> list[object]:
    """One of each kind: by bytes, by characters, by names."""
    from lab.tokenizers import train_tokenizer
    from model.pretrained.tokenizer import TokenListTokenizer

    text = "the cat sat on the mat. <b>x</b> & $a$ :red[b] \\ ` 从前 שלום"
    return [train_tokenizer("byte", text), train_tokenizer("char", text), TokenListTokenizer(["<b>", "&", "x", "$a$"])]


@settings(max_examples=200, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(text=odd)
def test_every_token_is_shown_escaped_and_none_is_lost(tokenizers: list[object], text: str) -> None:
    for tokenizer in tokenizers:
        prompt = tokenize(tokenizer, text, "skip")
        assert len(prompt.ids) == len(prompt.displays) == len(prompt.html)
        for display, escaped in zip(prompt.displays, prompt.html, strict=True):
            assert display and not re.search(r"[<>\"']", escaped)
            assert html.unescape(escaped).strip("\u2068\u2069") == display.strip("\u2068\u2069")
    whole = tokenize(tokenizers[0], text, "error")
    assert bytes(whole.ids) == text.encode() or len(whole.ids) == len(text.encode())


@settings(max_examples=200, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(text=odd)
def test_a_sentence_never_becomes_markup(text: str) -> None:
    assert not MARKDOWN.search(plain(text))
    assert "\n" not in plain(text)


@settings(max_examples=200, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(text=odd)
def test_no_string_opens_a_folder_that_is_not_offered(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        asked = elsewhere.asked_for(text)
    except elsewhere.Refused:
        return
    assert asked.on_hub and re.fullmatch(r"[\w.\-]+(/[\w.\-]+)?", asked.source) and not Path(asked.source).exists()


links = st.fixed_dictionaries(
    dict.fromkeys(("prompt", "step", "layer", "head", "token", "lang", "statistic", "guide", "do", "target"), odd)
)
following = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def follow(page: str, link: dict[str, str], run: str) -> None:
    """Open a link, then in the same tab one to a run that may not be there; nothing raises, the choice stays."""
    at = open_page(page, run="tiny", **link)
    assert at.selectbox(key="run").value == "tiny"
    at.query_params["run"] = run
    checked(at.run())
    kept = at.selectbox(key="run").value
    checked(at.run())
    assert at.selectbox(key="run").value == kept
    ours, *drawn = at.html  # the first is the page's own, a constant
    assert ours.value == DOCUMENT
    for element in drawn:
        assert "<b>" not in element.value and "</script>" not in element.value


@settings(following, max_examples=12)
@given(page=st.sampled_from(PAGES), link=links, run=odd)
def test_no_link_raises_and_the_selection_stays(runs: Path, page: str, link: dict[str, str], run: str) -> None:
    follow(page, link, run)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@settings(following, max_examples=200)
@given(link=links, run=odd)
def test_two_hundred_links_to_every_page(runs: Path, page: str, link: dict[str, str], run: str) -> None:
    follow(page, link, run)
