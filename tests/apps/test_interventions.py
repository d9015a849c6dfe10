"""Interventions from the page: what is shown is what `intervention_effect` says, and no session hears another."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from apps.intervening import KINDS, MOST_CHANGES, SITES, STREAMS, Change, code, decode, encode
from tests.apps.opening import checked, open_page, said

PROMPT = "the cat sat on the"
ZERO = "zero,layer=1,head=0"


def metric(at: AppTest, label: str) -> float:
    return float(next(m.value for m in at.metric if label in m.label))


def effect_of(run: Path, *changes: Change, prompt: str = PROMPT):
    from apps.inspection import Checkpoint
    from apps.intervening import build
    from lab.analysis import intervention_effect
    from lab.models import open_model

    model = open_model(run)
    ids = tuple(model.tokenizer.encode(prompt))
    return intervention_effect(
        model, list(ids), [build(model, change, ids, Checkpoint(str(run), 0)) for change in changes]
    )


@pytest.mark.parametrize("run", ["tiny", "running", "diverged", "postnorm", "single"])
def test_the_numbers_are_those_of_the_analysis(runs: Path, run: str) -> None:
    layer, head = (0, 0) if run == "single" else (1, 1)
    at = open_page("interventions", run=run, prompt=PROMPT, do=f"zero,layer={layer},head={head}")
    wanted = effect_of(runs / run, Change("zero", "head", layer, head))
    assert metric(at, "Mean loss") == pytest.approx(float(wanted.loss_after[:-1].mean()), abs=6e-4)
    assert metric(at, "KL") == pytest.approx(float(wanted.kl[-1]), abs=6e-4)
    assert at.get_by_key("before_after") is not None and at.get_by_key("intervention_map") is not None


def test_adding_and_taking_off_by_the_controls(runs: Path) -> None:
    at = open_page("interventions", run="tiny", prompt=PROMPT, layer="1")
    before = metric(at, "Mean loss")
    checked(at.button(key="intervene").click().run())
    assert at.query_params["do"] == "zero,layer=1,head=0" or at.query_params["do"] == ["zero,layer=1,head=0"]
    after = metric(at, "Mean loss")
    assert after != before
    at.segmented_control(key="kind").set_value("scale")
    checked(at.run())
    at.selectbox(key="at_site").set_value("mlp_out")
    checked(at.run())
    checked(at.button(key="intervene").click().run())
    assert len(decode(at.session_state["do"])[0]) == 2
    checked(at.button(key="remove_0").click().run())
    (left,) = decode(at.session_state["do"])[0]
    assert (left.kind, left.site, left.layer, left.factor) == ("scale", "mlp_out", 1, 0.5)
    checked(at.button(key="remove_0").click().run())
    assert metric(at, "Mean loss") == before and "do" not in at.query_params


def test_scaling_by_one_changes_nothing_to_the_last_bit(runs: Path) -> None:
    at = open_page("interventions", run="tiny", prompt=PROMPT, do="scale,layer=0,head=1,factor=1")
    assert "same to the last bit" in said(at, "info")


@pytest.mark.parametrize(
    "do",
    [
        "mean,layer=0,head=1",
        "mean,site=mlp_out,layer=1,text=" + "the%20cat%0Alily%20gave",
        "knockout,layer=1,head=0,position=4,key=1",
        "knockout,position=3,key=0",
        "patch,layer=0,head=0,text=lily%20gave%20the%20ball",
        "patch,site=resid_post,layer=0,position=2,text=tom",
        "steer,site=resid_post,layer=0,factor=4,token=3,against=5",
        "steer,site=resid_post,layer=1,factor=-2,text=the%20cat,versus=tom",
        "steer,site=mlp_out,layer=0,factor=2,text=the%20cat,versus=lily%20gave,read=mean",
    ],
)
def test_every_kind_does_what_its_python_does(runs: Path, do: str) -> None:
    at = open_page("interventions", run="tiny", prompt=PROMPT, do=do)
    assert not at.error
    (change,), strange = decode(do)
    assert not strange
    wanted = effect_of(runs / "tiny", change)
    assert metric(at, "KL") == pytest.approx(float(wanted.kl[-1]), abs=6e-4)
    (snippet,) = [block.value for block in at.code if "intervention_effect" in block.value]
    assert code(change) in snippet
    space: dict[str, object] = {}
    exec(snippet, space)
    np.testing.assert_allclose(space["result"].logits_after, wanted.logits_after, rtol=1e-5, atol=1e-5)  # type: ignore[attr-defined]


def test_a_list_that_another_model_cannot_do_is_kept_and_said(runs: Path) -> None:
    at = open_page("interventions", run="single", prompt=PROMPT, do="zero,layer=1,head=1;zero,layer=0,head=0")
    assert "does not exist here" in said(at, "warning")
    assert len(decode(at.session_state["do"])[0]) == 2
    wanted = effect_of(runs / "single", Change("zero", "head", 0, 0))
    assert metric(at, "Mean loss") == pytest.approx(float(wanted.loss_after[:-1].mean()), abs=6e-4)


def test_a_link_with_nonsense_is_said_and_the_rest_done(runs: Path) -> None:
    at = open_page(
        "interventions", run="tiny", prompt=PROMPT, do=f"{ZERO};explode,layer=0;scale,layer=0,head=0,factor=nan"
    )
    assert "explode" in said(at, "warning")
    assert decode(at.session_state["do"])[0] == (Change("zero", "head", 1, 0),)


@pytest.mark.parametrize("show", ["logit", "attention"])
@pytest.mark.parametrize("prompt", ["t", PROMPT])
def test_the_other_pictures(runs: Path, show: str, prompt: str) -> None:
    at = open_page("interventions", run="tiny", prompt=prompt, do=ZERO, show=show, map_colour="logit")
    assert not at.error and at.get_by_key("before_after") is not None


def test_both_texts_come_from_the_same_seed(runs: Path) -> None:
    at = open_page("interventions", run="tiny", prompt=PROMPT, do="scale,layer=0,head=1,factor=1")
    at.number_input(key="write_temperature").set_value(1.0)
    checked(at.run())
    checked(at.button(key="write").click().run())
    assert "Both texts are the same" in said(at, "caption")


def test_a_link_can_hold_every_change() -> None:
    for kind in KINDS:
        head = 0 if kind in ("zero", "mean", "scale", "patch", "knockout") else None
        site = "head" if head is not None else "resid_post"
        change = Change(kind, site, 0, head, 2, 1, -0.25, "a,b;c=d %\n从前", "x", 3, None)
        assert decode(encode((change,))) == ((change,), [])


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=120) | st.from_regex(r"(zero|steer|knockout)(,(site|layer|head|factor|token)=[-\w.%]{0,8}){0,4}")
)
def test_no_link_breaks_the_reader(text: str) -> None:
    changes, _ = decode(text)
    assert len(changes) <= MOST_CHANGES
    for change in changes:
        assert change.kind in KINDS and change.site in (*SITES, *STREAMS)
    assert decode(encode(changes))[0] == changes


def test_two_sessions_at_once_never_hear_each_other(runs: Path) -> None:
    from apps import inspection, intervening
    from apps.inspection import Checkpoint

    weights = next((runs / "tiny" / "checkpoints").glob("step_*12")) / "model.safetensors"
    checkpoint = Checkpoint(f"{runs / 'tiny'}@12", weights.stat().st_mtime_ns)
    model = inspection.open_checkpoint(checkpoint)
    ids = tuple(model.tokenizer.encode(PROMPT))
    changes = (Change("zero", "head", 0, 0), Change("scale", "mlp_out", 1, None, factor=3.0))
    quiet = inspection.attention.__wrapped__(checkpoint, ids).pattern
    loud = intervening.effect.__wrapped__(checkpoint, ids, changes).logits_after
    assert not np.array_equal(loud, intervening.effect.__wrapped__(checkpoint, ids, ()).logits_after)
    same: list[bool] = []

    def look() -> None:
        attention = inspection.attention.__wrapped__
        same.extend(np.array_equal(attention(checkpoint, ids).pattern, quiet) for _ in range(30))

    def change() -> None:
        effect = intervening.effect.__wrapped__
        same.extend(np.array_equal(effect(checkpoint, ids, changes).logits_after, loud) for _ in range(30))

    threads = [threading.Thread(target=target) for target in (look, change, look, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(same) == 120 and all(same)
    assert all(
        a is b for a, b in zip(model.parameters(), inspection.open_checkpoint(checkpoint).parameters(), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_attention_beside_every_kind_of_editor(runs: Path, kind: str) -> None:
    # Layer and head are drawn by the editor or by the picture, never by both.
    at = open_page("interventions", run="tiny", prompt=PROMPT, kind=kind, show="attention", reach="every_layer")
    assert (at.selectbox(key="layer").value, at.selectbox(key="head").value) == (0, 0)
