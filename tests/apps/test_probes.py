"""Probes from the page: what is shown is what `fit_probes` says, kept; what cannot be fitted is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from apps import probing
from apps.kept import Kept
from tests.apps.opening import checked, code, open_page, said


def drawn(at: AppTest, key: str) -> bool:
    """Whether the picture with this key is on the page."""
    try:
        return at.get_by_key(key) is not None
    except KeyError:
        return False


def test_the_page_shows_what_the_fit_says(with_stories: Path) -> None:
    from lab.analysis import corpus_labels, fit_probes
    from lab.corpora import open_corpus
    from lab.models import open_model

    at = open_page("probes", run="stories", examples="1000", lang="en")
    assert at.selectbox(key="labels").value == "stories:pos"
    model = open_model(with_stories / "stories")
    labels = corpus_labels(open_corpus("stories", size=60_000), model.tokenizer, "pos")
    wanted = fit_probes(model, labels, examples=1000)
    table = next(d.value for d in at.dataframe if "selectivity" in d.value.columns)
    assert table["row"].tolist() == ["embed", "L0"]
    assert table["accuracy"].tolist() == pytest.approx(wanted.accuracy.tolist())
    assert table["control"].tolist() == pytest.approx(wanted.control.tolist())
    assert "documents to judge" in said(at, "caption")
    known: dict[str, object] = {}
    exec(code(at), known)
    assert known["probes"].to_frame()["control"].tolist() == pytest.approx(table["control"].tolist())  # type: ignore[attr-defined]
    at.button(key="probes_film").click()
    checked(at.run())
    assert drawn(at, "probes_dynamics")
    at.select_slider(key="step").set_value(0)
    checked(at.run())
    other = next(d.value for d in at.dataframe if "selectivity" in d.value.columns)
    assert other["accuracy"].tolist() != table["accuracy"].tolist()
    assert drawn(at, "probes_dynamics")  # the film is of the run, not of one checkpoint


@pytest.mark.parametrize("kind", ["tiny", "running", "diverged", "postnorm"])
def test_a_tokenizer_that_cannot_read_the_labels_is_a_sentence(kind: str, runs: Path) -> None:
    at = open_page("probes", run=kind, lang="en")
    assert "cannot be fitted" in said(at, "warning") and "tokenizer" in said(at, "warning")


def test_a_wide_model_is_fitted_only_when_asked(with_stories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CHEAP", 0)
    at = open_page("probes", run="stories", examples="1000", control="token", lang="en")
    assert "takes a while" in said(at, "info") and not drawn(at, "probes_curve")
    at.button(key="probes_fit").click()
    checked(at.run())
    assert drawn(at, "probes_curve")
    checked(at.run())
    assert drawn(at, "probes_curve") and "takes a while" not in said(at, "info")


def test_bad_choices_in_a_link_are_replaced_with_a_notice(runs: Path) -> None:
    at = open_page("probes", run="tiny", labels="conllu:/etc/passwd", examples="99999", site="magic", lang="en")
    warned = said(at, "warning")
    assert "/etc/passwd" in warned and "99999" in warned and "magic" in warned
    assert at.select_slider(key="examples").value == 12_000


def test_the_models_own_corpus_comes_first() -> None:
    assert probing.label_choices("python")[0] == "python:token"
    assert probing.label_choices("induction")[:2] == ["induction:predictable", "induction:part"]
    for other in (None, "shakespeare", "a/file.txt"):
        assert probing.label_choices(other)[0] == "stories:pos"


def test_checkpoints_are_thinned_with_both_ends_kept() -> None:
    class Many:
        @staticmethod
        def checkpoints() -> list[int]:
            return list(range(0, 1000, 10))

    steps = probing.film_steps(Many())  # type: ignore[arg-type]
    assert len(steps) == probing.MOST_CHECKPOINTS and (steps[0], steps[-1]) == (0, 990)


def test_answers_are_kept_within_a_bound() -> None:
    answers = Kept(2)
    answers.put("a", "A")
    answers.put("b", "B")
    assert answers.get("a") == "A"
    answers.put("c", "C")  # b was not asked for the longest
    assert (answers.get("a"), answers.get("b"), answers.get("c")) == ("A", None, "C")
