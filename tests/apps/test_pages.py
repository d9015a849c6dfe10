"""Every page on every kind of run: nothing raises, and the page says what there is to see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.apps.opening import PAGES, checked, open_page, said
from tests.apps.training import KINDS

INSPECTION = ("generate", "lens", "attention", "contributions")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_renders_for_every_kind_of_run(page: str, kind: str, runs: Path) -> None:
    at = open_page(page, run=kind)
    assert at.selectbox(key="run").value == kind
    assert at.title[0].value


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("page", PAGES)
def test_every_page_renders_with_no_run_at_all(page: str, lang: str, runs_folder: Path) -> None:
    at = open_page(page, lang=lang)
    assert any("tiny" in (button.key or "") for button in at.button)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_renders_in_chinese(page: str, runs: Path) -> None:
    at = open_page(page, run="tiny", lang="zh")
    assert any("\u4e00" <= c <= "\u9fff" for c in at.title[0].value)


def test_the_pages_draw_their_main_picture(runs: Path) -> None:
    for page, key in (("train", "loss_curves"), ("lens", "lens_grid"), ("contributions", "contribution_bars")):
        at = open_page(page, run="tiny")
        assert at.get_by_key(key) is not None
    at = open_page("attention", run="tiny")
    assert at.get_by_key("attention_mosaic") is not None and at.get_by_key("attention_head") is not None


def test_switching_pages_keeps_run_checkpoint_prompt_and_layer(runs: Path) -> None:
    at = open_page("attention", run="postnorm", step="6", prompt="lily gave", layer="1", head="1")
    at.switch_page("views/lens.py")
    checked(at.run())
    assert (at.selectbox(key="run").value, at.select_slider(key="step").value) == ("postnorm", 6)
    assert at.text_area(key="prompt").value == "lily gave"
    at.switch_page("views/attention.py")
    checked(at.run())
    assert (at.selectbox(key="layer").value, at.selectbox(key="head").value) == (1, 1)


def test_a_diverged_run_says_so_and_its_last_good_checkpoint_opens(runs: Path) -> None:
    at = open_page("train", run="diverged")
    assert "diverged" in said(at, "error")
    at = open_page("generate", run="diverged")
    at.button(key="generate.go").click()
    checked(at.run())
    assert not at.error


def test_a_run_without_a_checkpoint_is_explained(runs: Path) -> None:
    import shutil

    shutil.rmtree(runs / "tiny" / "checkpoints")
    for page in INSPECTION:
        assert "no checkpoint yet" in said(open_page(page, run="tiny"))


def test_damaged_files_are_a_sentence_not_a_crash(runs: Path) -> None:
    weights = next((runs / "tiny" / "checkpoints").glob("step_*12")) / "model.safetensors"
    weights.write_bytes(b"not weights")
    assert "cannot be opened" in said(open_page("lens", run="tiny"), "error")
    (runs / "postnorm" / "tokenizer.json").write_text("{}")
    assert "tokenizer" in said(open_page("lens", run="postnorm"), "error")
    (runs / "single" / "config.json").write_text("{")
    for page in PAGES:
        open_page(page, run="tiny")


def test_drawing_a_page_again_leaves_the_module_path_as_it_was(runs: Path) -> None:
    at = open_page("anatomy", run="tiny")
    before = list(sys.path)
    for _ in range(2):
        checked(at.run())
    assert sys.path == before
