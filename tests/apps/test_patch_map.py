"""Two prompts on a page: every patch at once, the answer against the other one, a few heads kept alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from apps.intervening import decode
from tests.apps.opening import PAGES, checked, open_page, said

FIRST, SECOND = "the cat sat on the mat. tom", "the cat sat on the mat. the"
UNLIKE = "the cat"


def open_model(run: Path):
    from lab.models import open_model

    return open_model(run)


def grid(run: Path, site: str, direction: str = "noise"):
    from lab.analysis import LogitDifference, activation_patching

    return activation_patching(
        open_model(run), FIRST, SECOND, LogitDifference(" ", "."), site=site, direction=direction
    )


def metric(at: AppTest, label: str) -> float:
    return float(next(m.value for m in at.metric if label == m.label))


def test_the_baselines_and_kept_heads_are_those_of_the_analysis(runs: Path) -> None:
    from lab.analysis import LogitDifference, circuit_faithfulness

    run = runs / "tiny"
    answer, wrong = (str(open_model(run).to_single_token(text)) for text in " .")
    at = open_page(
        "interventions", run="tiny", prompt=FIRST, kind="patch", second_prompt=SECOND, target=answer, versus=wrong
    )
    found = grid(run, "head")
    assert metric(at, "This prompt") == pytest.approx(found.clean, abs=6e-4)
    assert metric(at, "Second prompt") == pytest.approx(found.corrupt, abs=6e-4)
    kept = at.multiselect(key="kept_heads").value
    assert kept
    heads = [(int(name[1]), int(name[3])) for name in kept]
    left = circuit_faithfulness(open_model(run), FIRST, SECOND, LogitDifference(" ", "."), heads)
    assert metric(at, "These heads alone") == pytest.approx(left.circuit, abs=6e-4)
    assert metric(at, "Faithfulness") == pytest.approx(left.faithfulness, abs=6e-3)
    assert at.get_by_key("patching_positions") is not None


@pytest.mark.parametrize("direction", ["noise", "denoise"])
def test_the_map_holds_each_patch_as_a_share_of_the_difference(runs: Path, direction: str) -> None:
    from apps.inspection import Checkpoint
    from apps.patching import every_part

    model = open_model(runs / "tiny")
    ids, other = (tuple(model.tokenizer.encode(text)) for text in (FIRST, SECOND))
    target = (len(ids) - 1, int(model.to_single_token(" ")), int(model.to_single_token(".")))
    checkpoint = Checkpoint(str(runs / "tiny"), 0)
    shares = every_part(checkpoint, ids, other, target, direction)
    assert shares.shape == (2, 2 + 3)
    assert shares[:, :2] == pytest.approx(grid(runs / "tiny", "head", direction).recovered, abs=1e-5)
    assert shares[-1, -1] == pytest.approx(1.0, abs=1e-4)  # the whole stream carries the whole difference


def test_a_click_patches_there_and_a_second_one_undoes_it(runs: Path) -> None:
    from apps.widgets.intervention_editor import pick_place

    def script() -> None:
        import streamlit as st

        from apps.widgets.intervention_editor import pick_place

        st.session_state.setdefault("kind", "patch")
        st.session_state.setdefault("second_prompt", "the dog")
        st.button("click", key="click", on_click=pick_place, args=([1, 0], 2))

    del pick_place
    at = AppTest.from_function(script).run()
    at.button(key="click").click().run()
    (change,), _ = decode(at.session_state["do"])
    assert (change.kind, change.layer, change.head, change.text) == ("patch", 1, 0, "the dog")
    at.button(key="click").click().run()
    assert at.session_state["do"] == ""


@pytest.mark.parametrize("second", [UNLIKE, FIRST, "中文"])
def test_prompts_that_do_not_line_up_leave_the_map_of_single_parts(runs: Path, second: str) -> None:
    at = open_page("interventions", run="tiny", prompt=FIRST, kind="patch", second_prompt=second)
    assert at.get_by_key("intervention_map") is not None
    assert not [m for m in at.metric if m.label == "Faithfulness"]
    if second == UNLIKE:
        assert str(len(UNLIKE)) in said(at, "caption")


def test_the_second_prompt_is_filled_in_and_stays_out_of_the_link_until_changed(runs: Path) -> None:
    at = open_page("interventions", run="tiny", kind="patch")
    at.session_state["unknown"] = "skip"  # the run's alphabet has no capitals
    at.text_area(key="prompt").set_value("When Tom and Ann ran, Tom")
    checked(at.run())
    assert at.text_input(key="second_prompt").value == "When Tom and Ann ran, Ann"
    assert "second_prompt" not in at.query_params
    at.text_input(key="second_prompt").set_value("the cat sat on the mat")
    checked(at.run())
    assert at.query_params["second_prompt"] in ("the cat sat on the mat", ["the cat sat on the mat"])


def test_a_target_that_nobody_chose_follows_the_prompt(runs: Path) -> None:
    model = open_model(runs / "tiny")
    at = open_page("contributions", run="tiny", prompt="the cat sat on the")
    for prompt in ("lily gave the ball to", "tom. lily"):
        at.text_area(key="prompt").set_value(prompt)
        checked(at.run())
        likeliest = int(model(model.to_tokens(prompt))[0, -1].argmax())
        assert at.selectbox(key="target").value == likeliest
        assert "target" not in at.query_params
    at.selectbox(key="target").set_value(int(model.to_single_token("m")))  # chosen: it stays
    checked(at.run())
    at.text_area(key="prompt").set_value("the cat")
    checked(at.run())
    assert at.selectbox(key="target").value == int(model.to_single_token("m"))


def test_every_token_of_the_prompt_can_be_compared_with(runs: Path) -> None:
    at = open_page("contributions", run="tiny", prompt="the cat sat on the")
    labels = at.selectbox(key="versus").options
    for character in "thecason":
        assert character in labels


@pytest.mark.parametrize(("typed", "kept"), [("q", True), ("the cat", False), ("中", False), ("", False)])
def test_any_one_token_can_be_typed_on_either_side(runs: Path, typed: str, kept: bool) -> None:
    from apps.widgets.token_target import accept_typed

    model = open_model(runs / "tiny")
    typed = "b" if kept else typed

    def script(text: str, run: str) -> None:
        import streamlit as st

        from apps.widgets.token_target import accept_typed
        from lab.models import open_model

        st.session_state.setdefault("versus_before", -1)
        st.session_state["versus"] = text
        accept_typed("versus", open_model(run).tokenizer)

    del accept_typed
    at = AppTest.from_function(script, args=(typed, str(runs / "tiny"))).run()
    assert not at.exception
    assert at.session_state["versus"] == (int(model.to_single_token(typed)) if kept else -1)
    assert ("notices" in at.session_state and bool(at.session_state["notices"])) is not kept


@pytest.mark.parametrize("page", [p for p in PAGES if p in ("lens", "attention", "contributions", "interventions")])
def test_the_examples_offered_are_those_the_model_reads(runs: Path, page: str) -> None:
    tokenizer = open_model(runs / "tiny").tokenizer
    at = open_page(page, run="tiny")
    offered = at.selectbox(key="prompt_example").options
    assert offered
    for prompt in offered:
        assert tokenizer.encode(prompt.replace("⏎", "\n"))
    assert at.text_area(key="prompt").value.replace("\n", "⏎") == offered[0]
