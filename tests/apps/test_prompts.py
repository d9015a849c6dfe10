"""Prompts of every kind on the inspection pages: named, explained, shown literally, never a crash."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from tests.apps.opening import checked, open_page, said
from tests.apps.training import MARKUP

INSPECTION = ("generate", "lens", "attention", "contributions")


def strip(at: AppTest, key: str = "lens_strip") -> dict[str, object]:
    """The data a token strip was given."""
    element = at.get_by_key(key)
    data: dict[str, object] = json.loads(
        element.proto.mixed.json if element.proto.HasField("mixed") else element.proto.json
    )
    return data


def figure(at: AppTest, key: str) -> dict[str, object]:
    """A plotly figure as the browser gets it."""
    spec: dict[str, object] = json.loads(at.get_by_key(key).proto.spec)
    return spec


@pytest.mark.parametrize("page", INSPECTION)
def test_unknown_characters_are_named_and_skip_or_replace_offered(page: str, runs: Path) -> None:
    at = open_page(page, run="tiny", prompt="the 🐱 从 cat")
    problem = said(at, "error")
    assert "U+1F431" in problem and "U+4ECE" in problem
    assert at.text_area(key="prompt").value == "the 🐱 从 cat"
    for choice in ("skip", "replace"):
        at.get_by_key("unknown").set_value(choice)
        checked(at.run())
        assert not at.error and "unknown parts are" in said(at, "caption")


def test_an_empty_prompt_is_asked_for_where_there_is_no_beginning_token(runs: Path) -> None:
    for page in INSPECTION:
        at = open_page(page, run="tiny")
        at.text_area(key="prompt").set_value("")
        checked(at.run())
        assert "prompt is empty" in said(at, "info")


@pytest.mark.parametrize("page", INSPECTION)
@pytest.mark.parametrize("prompt", [" ", "\n", "a"])
def test_one_token_is_enough(page: str, prompt: str, runs: Path) -> None:
    at = open_page(page, run="tiny", prompt=prompt)
    assert not at.error and "1 token" in said(at, "caption")


def test_one_token_has_no_loss_and_says_why(runs: Path) -> None:
    assert "A loss needs 2 tokens" in said(open_page("lens", run="tiny", prompt="a"))


def test_white_space_at_the_end_is_kept_and_said(runs: Path) -> None:
    at = open_page("lens", run="tiny", prompt="the cat ")
    assert "8 tokens" in said(at, "caption") and "white space at the end" in said(at, "caption")
    at.button(key="prompt_trim").click()
    checked(at.run())
    assert at.text_area(key="prompt").value == "the cat" and "7 tokens" in said(at, "caption")


def test_repeated_tokens_keep_their_columns(runs: Path) -> None:
    prompt = "the cat the cat the"
    at = open_page("attention", run="tiny", prompt=prompt, layer="1", head="0")
    spec = figure(at, "attention_head")
    assert spec["layout"]["xaxis"]["tickvals"] == list(range(len(prompt)))
    assert spec["layout"]["xaxis"]["type"] == "linear"
    z = spec["data"][0]["z"]
    assert z["shape"] == f"{len(prompt)}, {len(prompt)}"


def test_the_drawn_cells_are_the_models_own_numbers(runs: Path) -> None:
    import base64

    from lab.models import open_model

    prompt = "lily gave"
    at = open_page("attention", run="tiny", prompt=prompt, layer="1", head="1")
    z = figure(at, "attention_head")["data"][0]["z"]
    drawn = np.frombuffer(base64.b64decode(z["bdata"]), dtype=z["dtype"]).reshape(len(prompt), len(prompt))
    _, cache = open_model(runs / "tiny").run_with_cache(prompt)
    pattern = cache["blocks.1.attn.hook_pattern"][0, 1].numpy()
    seen = np.tril(np.ones_like(pattern, dtype=bool))
    assert np.isnan(drawn[~seen]).all()
    np.testing.assert_allclose(drawn[seen], pattern[seen], atol=1e-6)


def test_a_long_prompt_is_cut_to_the_context_and_said(runs: Path) -> None:
    at = open_page("lens", run="tiny", prompt="the cat sat on " * 20)
    assert "300 tokens" in said(at, "caption") and "last 48" in said(at, "caption")
    assert len(strip(at)["displays"]) == 48
    at = open_page("generate", run="tiny", prompt="the cat sat on " * 20)
    assert "last 48" in said(at, "caption")


def test_markup_is_shown_literally(runs: Path) -> None:
    at = open_page("lens", run="tiny", prompt=MARKUP)
    shown = "".join(strip(at)["displays"])
    assert shown.replace("\N{OPEN BOX}", " ") == MARKUP
    assert "<b>" not in json.dumps(figure(at, "lens_grid")["layout"]["xaxis"]["ticktext"])
    at = open_page("generate", run="tiny", prompt=MARKUP)
    at.button(key="generate.go").click()
    checked(at.run())
    page = "".join(element.value for element in at.html)
    assert "<b>" not in page and "&lt;b&gt;x&lt;/b&gt; &lt;/script&gt;" in page


def test_the_cut_never_shows_tokens_that_are_not_the_prompts_end(runs: Path) -> None:
    at = open_page("lens", run="tiny", prompt="a" * 60 + "b" * 8)
    assert strip(at)["displays"] == ["a"] * 40 + ["b"] * 8


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(prompt=st.text(max_size=60), layer=st.text(max_size=6), token=st.integers(-(10**6), 10**6))
def test_no_prompt_and_no_link_raises(runs: Path, prompt: str, layer: str, token: int) -> None:
    at = open_page("attention", run="tiny", prompt=prompt, layer=layer, token=str(token), head="1")
    assert at.selectbox(key="run").value == "tiny"
