"""What is taken home: the Python of each page gives the numbers of its picture; a PNG is a picture of the page."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from apps.widgets import export_png
from tests.apps.opening import open_page

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


@pytest.mark.skipif(CHROMIUM is None, reason="no Chrome or Chromium on PATH")
def test_a_png_shows_the_figure_and_ends_where_the_page_ends() -> None:
    from PIL import Image

    from lab.plots import next_token_bars, to_offline_html

    page = to_offline_html(next_token_bars(["<b>", "猫"], [0.7, 0.2]), "Title")
    image = Image.open(io.BytesIO(export_png.photographed(page)))
    assert image.width == export_png.WIDTH * export_png.SCALE
    assert 300 < image.height < 1400
    blue = np.asarray(image.convert("RGB"), dtype=int)
    assert ((blue - (31, 95, 168)) ** 2).sum(-1).min() < 30  # the bar of the likelier token is drawn


@pytest.mark.skipif(CHROMIUM is None, reason="no Chrome or Chromium on PATH")
def test_a_browser_that_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    false = shutil.which("false")
    monkeypatch.setattr(export_png, "renderer", lambda: false)
    with pytest.raises(RuntimeError, match="made no picture"):
        export_png.photographed("<p>")
