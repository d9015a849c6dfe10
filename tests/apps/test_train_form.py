"""The form of a new run: errors beside their fields, counts that are right or hidden, one job for one click."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from apps.widgets.corpus_choice import LARGEST_UPLOAD, UnreadableText, decode, store
from apps.widgets.train_form import OPEN, READS_SOON
from lab.runs import list_runs
from tests.apps.opening import EXPLORER, checked, open_page, said
from tests.apps.training import text

MODEL, TRAINING = "new.model.", "new.training."


def metrics(at: AppTest) -> dict[str, str]:
    return {m.label: m.value for m in at.metric}


def can_start(at: AppTest) -> bool:
    return not at.button(key="start").disabled


def paste(at: AppTest, content: str) -> AppTest:
    at.get_by_key("corpus_source").set_value("paste")
    checked(at.run())
    at.text_area(key="corpus_paste").set_value(content)
    return checked(at.run())


def show(at: AppTest, group: str) -> None:
    """Unfold one group of the form's further settings."""
    at.get_by_key("new_group").set_value(group)
    checked(at.run())


def make_small(at: AppTest, n_ctx: int = 16, steps: int = 5) -> AppTest:
    """The pasted text with a model that trains in a moment."""
    for name, value in (("n_layers", 1), ("d_model", 16), ("n_heads", 2), ("n_ctx", n_ctx)):
        at.number_input(key=MODEL + name).set_value(value)
    at.number_input(key=TRAINING + "steps").set_value(steps)
    at.selectbox(key="new_tokenizer").set_value("char")
    return checked(at.run())


@pytest.fixture
def form(runs_folder: Path) -> AppTest:
    return paste(open_page("train"), text())


def test_the_count_is_live_and_right(form: AppTest) -> None:
    from model import GPTConfig, count_parameters

    make_small(form)
    assert can_start(form)
    vocabulary = len(set(text()))
    values = {f: form.session_state[MODEL + f] for f in ("n_layers", "d_model", "n_heads", "n_ctx")}
    config = GPTConfig.preset("nano", d_vocab=vocabulary, **_variant(form), **values)
    assert metrics(form)["Parameters"] == f"{count_parameters(config).total:,}"
    form.number_input(key=MODEL + "n_layers").set_value(2)
    checked(form.run())
    assert metrics(form)["Parameters"] != f"{count_parameters(config).total:,}"


def _variant(at: AppTest) -> dict[str, object]:
    names = ("positional_embedding_type", "normalization_type", "act_fn", "qk_norm", "tie_word_embeddings", "use_bias")
    return {name: at.session_state[MODEL + name] for name in names}


def test_heads_that_do_not_divide_name_those_that_do(form: AppTest) -> None:
    form.number_input(key=MODEL + "d_model").set_value(100)
    form.number_input(key=MODEL + "n_heads").set_value(3)
    checked(form.run())
    errors = said(form, "error")
    assert "d_model 100" in errors and "n_heads 3" in errors and "1, 2, 4, 5, 10, 20, 25, 50" in errors
    assert not can_start(form)
    assert "Parameters" not in metrics(form)
    form.number_input(key=MODEL + "n_heads").set_value(10)
    checked(form.run())
    assert not form.error and can_start(form) and "Parameters" in metrics(form)


@pytest.mark.parametrize("name, value", [("d_model", 0), ("n_heads", -4), ("n_layers", 0), ("n_ctx", -1), ("seed", -1)])
def test_every_wrong_field_has_its_own_error(name: str, value: int, form: AppTest) -> None:
    if name == "seed":
        show(form, "start")
    form.number_input(key=MODEL + name).set_value(value)
    form.number_input(key=TRAINING + "batch_size").set_value(0)
    checked(form.run())
    errors = said(form, "error")
    assert f"{name} is {value}" in errors and "batch_size is 0" in errors
    assert not can_start(form)


@pytest.mark.parametrize("shape", [{"n_layers": 1, "n_heads": 1, "d_model": 2}, {"n_heads": 16, "d_model": 16}])
def test_odd_but_sound_shapes_are_accepted(shape: dict[str, int], form: AppTest) -> None:
    show(form, "variant")
    form.selectbox(key=MODEL + "positional_embedding_type").set_value("standard")
    for name, value in shape.items():
        form.number_input(key=MODEL + name).set_value(value)
    checked(form.run())
    assert can_start(form), said(form)


def test_a_text_shorter_than_the_context_is_refused_before_training(runs_folder: Path) -> None:
    at = paste(open_page("train"), "twenty characters ab")
    at = make_small(at, n_ctx=64)
    assert not can_start(at)
    problem = said(at, "error")
    assert "18 tokens" in problem and "64" in problem and "65" in problem
    assert not list_runs(runs_folder)


def test_exactly_context_plus_one_tokens_are_enough(runs_folder: Path) -> None:
    # 90 % of 170 characters are 153; the other 17 are one window of 16 inputs and their targets.
    at = make_small(paste(open_page("train"), "abcdefghij" * 17), n_ctx=16)
    assert can_start(at), said(at)
    at = make_small(at, n_ctx=17)
    assert not can_start(at)
    assert "validation" in said(at, "error") and "17 tokens" in said(at, "error")


def test_an_empty_or_blank_text_is_asked_for(runs_folder: Path) -> None:
    at = open_page("train")
    for content in ("", "   \n\t "):
        at = paste(at, content)
        assert "no text yet" in said(at, "warning") and not can_start(at)


def test_an_upload_is_read_and_its_name_cannot_lead_anywhere(runs_folder: Path) -> None:
    at = open_page("train")
    at.get_by_key("corpus_source").set_value("upload")
    checked(at.run())
    assert not can_start(at)
    at.file_uploader[0].upload("../../evil name.txt", text().encode())
    checked(at.run())
    assert can_start(at), said(at)
    kept = list((runs_folder / ".corpora").iterdir())
    assert [path.parent for path in kept] == [runs_folder / ".corpora"] and kept[0].read_text() == text()


def test_start_twice_is_one_job_and_the_run_ends_as_it_should(form: AppTest) -> None:
    import time

    make_small(form, steps=300)
    form.button(key="start").click()
    checked(form.run())
    form.session_state[OPEN] = True  # the form folds itself up; unfold it and press again
    checked(form.run())
    form.button(key="start").click()
    checked(form.run())
    assert "already being trained" in said(form, "info")
    runs = list_runs()
    assert len(runs) == 1
    assert form.query_params["run"] == runs[0].id
    deadline = time.monotonic() + 120
    while runs[0].status().active and time.monotonic() < deadline:
        time.sleep(0.2)
    assert runs[0].status().state == "done", runs[0].log()
    checked(form.run())
    assert "done" in said(form, "caption")


def test_a_folder_that_cannot_be_written_is_named(runs_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = runs_folder / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("RESIDLAB_RUNS", str(blocked))
    at = paste(open_page("train"), text())
    assert str(blocked) in said(at, "warning") and not can_start(at)


def test_the_preset_and_the_recipe_fill_the_form(form: AppTest) -> None:
    form.selectbox(key="new_preset").set_value("minigpt")
    form.selectbox(key="new_recipe").set_value("nanogpt")
    checked(form.run())
    assert form.number_input(key=MODEL + "n_ctx").value == 512
    show(form, "optimizer")
    assert form.selectbox(key=TRAINING + "optimizer").value == "adamw"
    assert form.number_input(key=TRAINING + "lr").value == pytest.approx(1e-3)


@pytest.mark.parametrize("steps, every", [(150, 10), (400, 20), (1000, 50), (4000, 200), (100_000, 250), (5, 10)])
def test_a_short_run_is_evaluated_often_enough_for_a_curve(steps: int, every: int, form: AppTest) -> None:
    form.number_input(key=TRAINING + "steps").set_value(steps)
    checked(form.run())
    assert form.session_state[TRAINING + "eval_every"] == every
    show(form, "record")
    assert form.number_input(key=TRAINING + "eval_every").value == every


def test_a_pace_of_the_readers_own_stays(form: AppTest) -> None:
    show(form, "record")
    form.number_input(key=TRAINING + "eval_every").set_value(33)
    checked(form.run())
    form.number_input(key=TRAINING + "steps").set_value(150)
    checked(form.run())
    assert form.number_input(key=TRAINING + "eval_every").value == 33
    form.selectbox(key="new_recipe").set_value("nanogpt")  # another recipe fills the form anew
    checked(form.run())
    assert form.session_state[TRAINING + "eval_every"] != 33


def test_a_wrong_tokenizer_is_explained(runs_folder: Path) -> None:
    at = AppTest.from_file(EXPLORER, default_timeout=60)
    at.session_state["new_tokenizer"] = "bpe:many"  # typed in: the box takes what is not on its list
    at.session_state[READS_SOON] = "now"
    checked(at.run())
    assert "bpe:many" in said(at, "error") and not can_start(at)


def test_the_first_paint_shows_no_count_and_the_next_run_does(runs_folder: Path) -> None:
    at = open_page("train")
    assert metrics(at)["Parameters"] == "–" and not can_start(at)
    checked(at.run())
    assert int(metrics(at)["Parameters"].replace(",", "")) > 100_000 and can_start(at)


def test_text_files_are_decoded_with_care() -> None:
    assert decode("\ufeffa\r\nb\rc".encode()) == "a\nb\nc"
    assert decode("从前".encode("gb18030"), "gb18030") == "从前"
    with pytest.raises(UnreadableText, match="byte 1"):
        decode(b"a\xff")
    with pytest.raises(UnreadableText, match="position 1"):
        decode(b"a\x00b")
    with pytest.raises(UnreadableText):
        decode(b"a", "rot13")
    with pytest.raises(UnreadableText, match="20,000,001"):
        decode(b"a" * (LARGEST_UPLOAD + 1))


@pytest.mark.parametrize("stem", ["../../x", "/etc/passwd", "..", "", "a b\x00c", "从前.txt", "x" * 300])
def test_a_stored_text_stays_in_its_folder(stem: str, tmp_path: Path) -> None:
    path = store("text", stem, tmp_path / "kept")
    assert path.parent == tmp_path / "kept" and path.read_text() == "text"
    assert store("text", stem, tmp_path / "kept") == path
    assert len(os.listdir(tmp_path / "kept")) == 1
