"""What is taken home: the Python of each page gives the numbers of its picture; a PNG is a picture of the page."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from apps.widgets import export_png
from tests.apps.opening import PAGES, open_page

PROMPT = "the cat sat on the"
CHROMIUM = export_png.renderer()


def executed(at: AppTest, contains: str) -> dict[str, object]:
    (snippet,) = [block.value for block in at.code if contains in block.value]
    space: dict[str, object] = {}
    exec(snippet, space)
    return space


def table(at: AppTest, column: str):
    return next(d.value for d in at.dataframe if column in d.value.columns)


def test_compare_gives_its_numbers(runs: Path) -> None:
    at = open_page("compare", run="tiny", run_b="postnorm", prompt=PROMPT)
    space = executed(at, "token_predictions")
    losses = [float(np.mean(space[name].surprisal[1:])) for name in "ab"]  # type: ignore[attr-defined]
    assert [float(m.value) for m in at.metric[:2]] == pytest.approx(losses, abs=6e-4)


def test_the_python_of_a_prompt_that_text_alone_does_not_give(runs: Path) -> None:
    at = open_page("interventions", run="tiny", prompt="the cat sat. " * 12, do="zero,layer=0,head=0")
    space = executed(at, "intervention_effect")
    assert isinstance(space["prompt"], list) and len(space["prompt"]) == 48  # cut to the context


def test_without_a_browser_the_row_says_what_is_missing(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_png.shutil, "which", lambda name: None)
    at = open_page("compare", run="tiny", run_b="postnorm", prompt=PROMPT)
    (button,) = [b for b in at.get("download_button") if b.label == "PNG"]
    assert button.proto.disabled and "Chromium" in button.proto.help
    with pytest.raises(RuntimeError, match="none is found"):
        export_png.photographed("<p>")


@pytest.mark.skipif(
    CHROMIUM is None and "RESIDLAB_REQUIRE_BROWSER" not in os.environ, reason="no Chrome or Chromium on PATH"
)
def test_a_png_shows_the_figure_and_ends_where_the_page_ends() -> None:
    from PIL import Image

    from lab.plots import next_token_bars, to_offline_html

    page = to_offline_html(next_token_bars(["<b>", "猫"], [0.7, 0.2]), "Title")
    image = Image.open(io.BytesIO(export_png.photographed(page)))
    assert image.width == export_png.WIDTH * export_png.SCALE
    assert 300 < image.height < 1400
    blue = np.asarray(image.convert("RGB"), dtype=int)
    assert ((blue - (31, 95, 168)) ** 2).sum(-1).min() < 30  # the bar of the likelier token is drawn


@pytest.mark.skipif(
    CHROMIUM is None and "RESIDLAB_REQUIRE_BROWSER" not in os.environ, reason="no Chrome or Chromium on PATH"
)
def test_a_browser_that_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    false = shutil.which("false")
    monkeypatch.setattr(export_png, "renderer", lambda: false)
    with pytest.raises(RuntimeError, match="made no picture"):
        export_png.photographed("<p>")


def test_lens_and_tokens_give_their_numbers(runs: Path) -> None:
    at = open_page("lens", run="tiny", prompt=PROMPT)
    lens = executed(at, "logit_lens")["result"]
    cell = table(at, "probability")["probability"]
    shown = lens.top_probabilities[-1, -1]  # type: ignore[attr-defined]
    assert cell.tolist() == pytest.approx(shown[: len(cell)].tolist(), abs=1e-6)
    tokens = executed(at, "token_predictions")["result"]
    assert any(f"{tokens.loss:.4f}" in caption.value.replace("\\", "") for caption in at.caption)  # type: ignore[attr-defined]


def test_attention_gives_its_row(runs: Path) -> None:
    at = open_page("attention", run="postnorm", prompt=PROMPT, layer="1", head="1")
    result = executed(at, "attention_patterns")["result"]
    shown = sorted(table(at, "pattern")["pattern"].tolist())
    assert shown == pytest.approx(sorted(result.pattern[1, 1, -1].tolist()), abs=1e-6)  # type: ignore[attr-defined]


def test_contributions_give_their_bars(runs: Path) -> None:
    at = open_page("contributions", run="tiny", prompt=PROMPT, by="head")
    result = executed(at, "logit_contributions")["result"]
    shown = sorted(table(at, "component")["value"].tolist())
    assert shown == pytest.approx(sorted(result.values.tolist()), abs=1e-6)  # type: ignore[attr-defined]
    assert executed(at, "residual_norms")["result"] is not None


def test_generation_gives_the_same_tokens(runs: Path) -> None:
    at = open_page("generate", run="tiny", prompt=PROMPT)
    at.button(key="generate.go").click().run()
    steps = executed(at, "model.stream")["steps"]
    made = at.session_state["generated"].steps
    assert [step.token for step in steps] == [step.token for step in made]  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", ["ledger", "flow", "flops", "memory"])
def test_anatomy_gives_its_sums(runs: Path, view: str) -> None:
    at = open_page("anatomy", run="tiny")
    at.segmented_control(key="anatomy_view").set_value(view)
    at.run()
    assert not at.exception
    result = executed(at, "model.accounting")["result"]
    shown = table(at, {"ledger": "formula", "flow": "symbolic", "flops": "share", "memory": "bytes"}[view])
    if view == "memory":
        assert shown["bytes"].tolist()[: len(vars(result))] == list(vars(result).values())
    elif view == "flops":
        assert shown["flops"].tolist() == [row.flops for row in result.rows]  # type: ignore[attr-defined]
    else:
        assert len(shown) == len(result.to_frame())  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES)
def test_everything_a_page_offers_to_take_home_can_be_made(
    page: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is made only when it is clicked, in a thread whose errors no reader sees."""
    offered: dict[str, Any] = {}
    button = st.download_button

    def noted(label: str, data: Any, *rest: Any, **more: Any) -> bool:
        offered[more["file_name"]] = data
        return bool(button(label, data, *rest, **more))

    monkeypatch.setattr(st, "download_button", noted)
    open_page(page, run="tiny", prompt="lily gave")
    for name, make in offered.items():
        if name.endswith(".png") or not callable(make):
            continue
        made = make()
        assert len(made) > 10, name
        if name.endswith(".json"):
            json.loads(made, parse_constant=pytest.fail)  # NaN and Infinity are no JSON
    inspection = {"lens", "attention", "contributions", "compare", "anatomy"}
    assert page not in inspection or {".html", ".csv", ".json"} <= {Path(name).suffix for name in offered}
