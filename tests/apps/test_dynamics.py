"""Dynamics and the checkpoint slider: what a run wrote down, measured where it wrote nothing, and one step for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.apps.opening import checked, code, open_page, said, unescaped

STEPS = (0, 1, 2, 4, 8)


def write_film(run: Path, layers: int = 2, heads: int = 2, broken: bool = False) -> None:
    """A dynamics.jsonl in which L1H0 becomes an induction head between steps 2 and 4."""
    lines = []
    for step in STEPS:
        score = [[0.1 for _ in range(heads)] for _ in range(layers)]
        score[-1][0] = 0.75 if step >= 4 else 0.15
        entropy: list[list[float | None]] = [[2.0] * heads for _ in range(layers)]
        if broken:
            entropy[0][0] = None
        flat = [[0.2] * heads for _ in range(layers)]
        lines.append(
            {
                "step": step, "induction": score, "previous_token": flat, "duplicate_token": flat, "first_token": flat,
                "entropy": entropy, "residual_rms": [1.0 + step] * layers, "grad_norm": [0.5] * layers,
            }
        )  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 16, "induction": [[0.'
    (run / "dynamics.jsonl").write_text(text, encoding="utf-8")


def sentence(at: object) -> str:
    return "\n".join(unescaped(str(m.value)) for m in at.markdown)  # type: ignore[attr-defined]


def test_the_page_says_when_a_head_formed(runs: Path) -> None:
    write_film(runs / "tiny")
    at = open_page("dynamics", run="tiny", layer="1", head="0", lang="en")
    assert "L1H0: the largest change of induction from one checkpoint to the next is +0.60" in sentence(at)
    assert "between steps 2 and 4" in sentence(at) and "first time at step 4" in sentence(at)
    assert at.get_by_key("dynamics_curves") is not None and at.get_by_key("dynamics_layers") is not None
    table = at.dataframe[0].value
    assert table["induction"].tolist()[2] == 4 and table["induction"].isna().sum() == 3
    known: dict[str, object] = {}
    exec(code(at), known)
    assert known["films"]["induction"].values[-1, 1, 0] == 0.75  # type: ignore[index]
    at.select_slider(key="threshold").set_value(0.8)
    checked(at.run())
    assert "At no checkpoint is it 0.80 or more" in sentence(at)
    at = open_page("dynamics", run="tiny", measure="entropy", dynamics_view="grid", lang="en")
    assert at.get_by_key("dynamics_grid") is not None and at.select_slider(key="threshold").disabled


def test_the_strongest_head_is_one_click_away(runs: Path) -> None:
    write_film(runs / "postnorm")
    at = open_page("dynamics", run="postnorm", layer="0", head="1")
    at.button(key="dynamics_strongest").click()
    checked(at.run())
    assert (at.selectbox(key="layer").value, at.selectbox(key="head").value) == (1, 0)


def test_a_run_that_wrote_nothing_down_is_measured_at_its_checkpoints(runs: Path) -> None:
    from lab.analysis import checkpoint_dynamics
    from lab.runs import Run

    at = open_page("dynamics", run="tiny", lang="en")
    assert "wrote down no head scores" in said(at, "info")
    at.button(key="dynamics_measure").click()
    checked(at.run())
    checked(at.run())
    wanted = checkpoint_dynamics(Run(runs / "tiny"), "induction")
    assert at.dataframe[0].value["final"].tolist() == pytest.approx(wanted.flat[-1].tolist())


@pytest.mark.parametrize("kind", ["running", "diverged"])
def test_a_run_in_training_and_a_diverged_one_are_drawn(kind: str, runs: Path) -> None:
    at = open_page("dynamics", run=kind, lang="en")
    assert ("Nothing measured yet" in said(at, "caption")) == (kind == "running")
    write_film(runs / kind, broken=True)
    checked(at.run())
    assert at.get_by_key("dynamics_curves") is not None
    at = open_page("dynamics", run=kind, measure="entropy")
    assert at.get_by_key("dynamics_curves") is not None


def test_the_slider_and_its_buttons_are_one_step_for_every_page(runs: Path) -> None:
    at = open_page("attention", run="tiny", lang="en")
    slider = at.select_slider(key="step")
    assert slider.value == "latest" and at.button(key="film_on").disabled
    at.button(key="film_back").click()
    checked(at.run())
    assert at.select_slider(key="step").value == 6 and at.query_params["step"] in ("6", ["6"])
    at.switch_page("views/lens.py")
    checked(at.run())
    assert at.select_slider(key="step").value == 6
    at.select_slider(key="step").set_value(0)
    checked(at.run())
    assert at.query_params["step"] in ("0", ["0"]) and at.button(key="film_back").disabled
    at.button(key="film_on").click()
    checked(at.run())
    at.button(key="film_on").click()
    checked(at.run())
    assert at.select_slider(key="step").value == "latest" and "step" not in at.query_params


def tick(at: AppTest, shown: int | str) -> None:
    """What the film's timer in the browser does, from a browser whose slider stands at `shown`."""
    at.select_slider(key="step").set_value(shown)
    at.session_state["film_tick"] = shown
    checked(at.run())


def playing(at: AppTest) -> bool:
    return {"Pause": True, "Play": False}[at.button(key="film_play").label]


def play(page: str) -> AppTest:
    """The film of the run "tiny", begun anew from its end: at step 0."""
    at = open_page(page, run="tiny", lang="en")
    at.button(key="film_play").click()
    checked(at.run())
    assert playing(at) and at.select_slider(key="step").value == 0
    return at


def test_playing_goes_through_the_checkpoints_and_ends(runs: Path) -> None:
    at, seen = play("dynamics"), [0]
    while playing(at):
        tick(at, seen[-1])
        seen.append(at.select_slider(key="step").value)
    assert seen == [0, 6, "latest"]
    tick(at, "latest")  # one that was still under way
    assert not playing(at) and at.select_slider(key="step").value == "latest"


def test_a_tick_of_a_browser_that_lags_neither_turns_the_page_nor_halts_the_film(runs: Path) -> None:
    at = play("dynamics")
    for late in ("latest", "latest"):
        tick(at, late)
        assert playing(at) and at.select_slider(key="step").value == 0
    tick(at, 0)
    assert playing(at) and at.select_slider(key="step").value == 6
    tick(at, 0)
    assert playing(at) and at.select_slider(key="step").value == 6 and at.query_params["step"] in ("6", ["6"])


def test_whatever_the_reader_moves_halts_the_film(runs: Path) -> None:
    at = play("attention")
    at.selectbox(key="head").set_value(1)
    checked(at.run())
    assert playing(at)  # another head moves nothing in time
    at.button(key="film_play").click()
    checked(at.run())
    assert not playing(at) and at.select_slider(key="step").value == 0
    at = play("attention")
    at.session_state["film_tick"] = 0  # a tick that the reader's own move overtook
    at.select_slider(key="step").set_value(12)
    checked(at.run())
    assert not playing(at) and at.select_slider(key="step").value == 12
    at = play("attention")
    at.selectbox(key="run").set_value("postnorm")
    checked(at.run())
    assert not playing(at) and at.select_slider(key="step").value == "latest"
    at = play("attention")
    at.session_state["film_tick"] = 0
    at.switch_page("views/lens.py")
    checked(at.run())
    assert not playing(at) and at.select_slider(key="step").value == 0


def test_another_run_begins_at_its_latest(runs: Path) -> None:
    at = open_page("lens", run="tiny", step="6")
    at.selectbox(key="run").set_value("postnorm")
    checked(at.run())
    assert at.select_slider(key="step").value == "latest"
