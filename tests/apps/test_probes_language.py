"""The Probes page in another language: what its selects show, and what it says where nothing can be fitted."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.apps.opening import checked, open_page, said

SELECTS = ("labels", "site", "steer_from_versus")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def in_language(at: AppTest, name: str) -> AppTest:
    """The page after a click on the other language."""
    at.get_by_key("lang").set_value(name)
    return checked(at.run())


@pytest.mark.parametrize("chosen", [{}, {"labels": "stories:role", "site": "mlp_out"}])
def test_a_browser_is_handed_the_labels_of_the_new_language(chosen: dict[str, str], with_stories: Path) -> None:
    """A browser holds a select's label and sends it back: it must be one of the language that is on the page."""
    at = open_page("probes", run="stories", examples="1000", lang="en", **chosen)
    values = {key: at.selectbox(key=key).value for key in SELECTS}
    for name in ("zh", "en", "zh"):
        in_language(at, name)
        for key in SELECTS:
            sent = at.selectbox(key=key).proto
            assert sent.set_value and sent.raw_value in sent.options, (name, key)
            assert bool(CHINESE.search(sent.raw_value)) == (name == "zh"), (name, key)
        assert {key: at.selectbox(key=key).value for key in SELECTS} == values
        assert not at.warning
    checked(at.run())
    assert not any(at.selectbox(key=key).proto.set_value for key in SELECTS)  # only when the language changes


@pytest.mark.parametrize("kind", ["tiny", "running", "diverged", "postnorm"])
def test_what_cannot_be_fitted_is_said_in_the_readers_language(kind: str, with_stories: Path) -> None:
    at = open_page("probes", run="stories", examples="1000", lang="zh")
    at.selectbox(key="run").set_value(kind)
    checked(at.run())
    (warning,) = said(at, "warning").splitlines()
    assert "读不了语料" in warning and not re.search(r"[a-z]+ [a-z]+ [a-z]+", warning), warning
    in_language(at, "en")
    assert "tokenizer cannot read corpus" in said(at, "warning") and not CHINESE.search(said(at, "warning"))


def test_a_steering_probe_gives_its_reason_in_the_readers_language(runs: Path) -> None:
    at = open_page("interventions", run="tiny", kind="steer", steer_by="probe", lang="en")
    assert "tokenizer cannot read corpus" in said(at, "warning")
    in_language(at, "zh")
    assert "读不了语料" in said(at, "warning") and "tokenizer cannot read" not in said(at, "warning")


def test_unreadable_labels_survive_a_pickle() -> None:
    from lab.analysis import UnreadableLabels
    from lab.tokenizers import UnknownCharacters

    error = UnreadableLabels("corpus 'stories'", UnknownCharacters(["Zoe"], [3], "word"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.what, again.problem.characters) == (str(error), error.what, ("Zoe",))
