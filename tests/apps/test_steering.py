"""Steering along a probe, from either page: what is done is what `lab.analysis` does with that direction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from apps import intervening, probing
from apps.inspection import Checkpoint
from apps.intervening import Change, decode, encode
from tests.apps.opening import checked, open_page, said

PROMPT = "Lily gave the ball"
ALONG = Change(
    "steer", "resid_post", 0, factor=3.0, text="NOUN", versus="VERB", probe="stories:pos", examples=1000
)  # fmt: skip


def metric(at: AppTest, label: str) -> float:
    return float(next(m.value for m in at.metric if label in m.label))


def checkpoint_of(run: Path) -> Checkpoint:
    weights = next((run / "checkpoints").glob("step_*12")) / "model.safetensors"
    return Checkpoint(f"{run}@12", weights.stat().st_mtime_ns)


def steered(run: Path, change: Change) -> np.ndarray:
    """The logits [pos, d_vocab] as `lab.analysis` alone gives them, from a fit of every layer."""
    from lab.analysis import Steer, apply, corpus_labels, fit_probes
    from lab.corpora import open_corpus
    from lab.models import open_model

    model = open_model(run)
    labels = corpus_labels(open_corpus("stories", size=60_000), model.tokenizer, "pos")
    row = "embed" if change.site == "resid_pre" else f"L{change.layer}"
    site = "resid_post" if change.site == "resid_pre" else change.site
    probes = fit_probes(model, labels, site=site, examples=1000)
    direction = probes.direction(row, change.text, change.versus or None)
    with apply(model, [Steer(direction, change.layer, strength=change.factor, site=change.site)]):
        return model(PROMPT)[0].detach().numpy()


@pytest.mark.parametrize(
    "change",
    [
        ALONG,
        Change("steer", "resid_pre", 0, factor=-2.0, text="NOUN", probe="stories:pos", examples=1000),
        Change("steer", "mlp_out", 0, factor=5.0, text="VERB", versus="DET", probe="stories:pos", examples=1000),
    ],
)
def test_steered_logits_are_those_of_the_analysis(with_stories: Path, change: Change) -> None:
    run = with_stories / "stories"
    wanted = steered(run, change)
    checkpoint = checkpoint_of(run)
    ids = tuple(intervening.open_checkpoint(checkpoint).tokenizer.encode(PROMPT))
    found = intervening.effect(checkpoint, ids, (change,))
    assert np.abs(found.logits_after - found.logits_before).max() > 1e-3
    np.testing.assert_allclose(found.logits_after, wanted, rtol=1e-5, atol=1e-5)


def test_the_page_steers_along_a_probe_that_its_controls_choose(with_stories: Path) -> None:
    at = open_page("interventions", run="stories", prompt=PROMPT, kind="steer", steer_by="probe", lang="en")
    assert at.selectbox(key="steer_labels").value == "stories:pos" and not at.warning
    at.selectbox(key="steer_class").set_value("NOUN")
    checked(at.run())
    at.selectbox(key="steer_versus").set_value("VERB")
    at.number_input(key="strength").set_value(3.0)
    checked(at.run())
    checked(at.button(key="intervene").click().run())
    (change,) = decode(at.session_state["do"])[0]
    assert change == Change(
        "steer", "resid_post", 0, factor=3.0, text="NOUN", versus="VERB", probe="stories:pos"
    )  # fmt: skip
    assert any("+3" in m.value and "NOUN" in m.value and "part of speech" in m.value for m in at.markdown)
    effect = intervening.effect(checkpoint_of(with_stories / "stories"), tuple(_ids(with_stories)), (change,))
    assert metric(at, "KL") == pytest.approx(float(effect.kl[-1]), abs=6e-4) and metric(at, "KL") > 0


def _ids(runs: Path) -> list[int]:
    return list(intervening.open_checkpoint(checkpoint_of(runs / "stories")).tokenizer.encode(PROMPT))


def test_a_link_steers_and_its_python_gives_the_same_logits(with_stories: Path) -> None:
    at = open_page("interventions", run="stories", prompt=PROMPT, do=encode((ALONG,)), lang="en")
    assert not at.error and not at.warning
    (snippet,) = [block.value for block in at.code if "intervention_effect" in block.value]
    space: dict[str, object] = {}
    exec(snippet, space)
    wanted = steered(with_stories / "stories", ALONG)
    np.testing.assert_allclose(space["result"].logits_after, wanted, rtol=1e-5, atol=1e-5)  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", ["embed", "L0"])
def test_the_probes_page_hands_its_direction_over(with_stories: Path, row: str) -> None:
    at = open_page("probes", run="stories", prompt=PROMPT, examples="1000", probe_row=row, lang="en")
    at.selectbox(key="steer_from_class").set_value("VERB")
    checked(at.run())
    at.button(key="probes_steer").click()
    checked(at.run())
    assert at.title[0].value == "Interventions"
    (change,) = decode(at.session_state["do"])[0]
    site = "resid_pre" if row == "embed" else "resid_post"
    assert change == Change("steer", site, 0, factor=4.0, text="VERB", probe="stories:pos", examples=1000)
    assert at.segmented_control(key="steer_by").value == "probe" and metric(at, "KL") > 0


def test_a_long_fit_is_asked_for_first(with_stories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CHEAP", 0)
    monkeypatch.setattr(probing, "known_at", lambda *_: None)
    at = open_page("interventions", run="stories", prompt=PROMPT, do=encode((ALONG,)), lang="en")
    assert "takes a while" in said(at, "info") and metric(at, "KL") == 0
    at.button(key="steer_fit").click()
    checked(at.run())
    assert metric(at, "KL") > 0


@pytest.mark.parametrize(
    "do, word",
    [
        ("steer,layer=0,factor=4,text=NOUN,probe=stories%3Apos,examples=1000", "cannot read"),
        ("steer,layer=0,factor=4,text=NOUN,probe=conllu%3A%2Fetc%2Fpasswd", "no labels"),
        ("steer,layer=0,factor=4,probe=stories%3Apos", "classes"),
    ],
)
def test_what_cannot_be_steered_along_is_a_sentence(runs: Path, do: str, word: str) -> None:
    at = open_page("interventions", run="tiny", prompt="the cat", do=do, lang="en")
    assert word in said(at, "warning") and metric(at, "KL") == 0


def test_a_class_that_is_not_there_names_the_nearest(with_stories: Path) -> None:
    do = "steer,layer=0,factor=4,text=NOUNS,probe=stories%3Apos,examples=1000"
    at = open_page("interventions", run="stories", prompt=PROMPT, do=do, lang="en")
    assert "NOUNS" in said(at, "error", "warning") and "NOUN" in said(at, "error", "warning")


def test_a_link_cannot_ask_for_more_labels_than_the_page() -> None:
    for bad in ("examples=10000000", "examples=7", "read=first", "site=neuron"):
        assert decode(f"steer,layer=0,text=NOUN,probe=stories%3Apos,{bad}")[0] == ()
