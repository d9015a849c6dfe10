"""Links: what they bring is used when it is right, and replaced with a notice when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.opening import checked, open_page, said


def test_a_link_opens_the_same_view(runs: Path) -> None:
    at = open_page("attention", run="tiny", step="6", prompt="the cat", layer="1", head="1", token="3", lang="en")
    assert not at.warning
    assert (at.selectbox(key="layer").value, at.selectbox(key="head").value, at.selectbox(key="token").value) == (
        1,
        1,
        3,
    )
    assert at.query_params["layer"] == "1" and at.query_params["token"] == "3"


@pytest.mark.parametrize("bad", ["../../etc/passwd", "/etc", "nothing", "", "tiny/../tiny", "<b>", "a" * 3000])
def test_a_link_never_leads_out_of_the_runs_folder(bad: str, runs: Path) -> None:
    at = open_page("lens", run=bad)
    assert at.selectbox(key="run").value in {"tiny", "postnorm", "single", "running", "diverged"}
    assert "not available" in said(at, "warning")


@pytest.mark.parametrize(
    "name, bad, shown",
    [
        ("layer", "99", 1),
        ("layer", "-5", 0),
        ("layer", "x", 0),
        ("head", "7", 1),
        ("token", "1000", 2),
        ("token", "nan", 2),
    ],
)
def test_a_bad_number_in_a_link_is_clamped_with_a_notice(name: str, bad: str, shown: int, runs: Path) -> None:
    at = open_page("attention", run="tiny", prompt="cat", **{name: bad})
    assert at.selectbox(key=name).value == shown
    assert bad in said(at, "warning")


def test_a_missing_checkpoint_in_a_link_becomes_the_nearest(runs: Path) -> None:
    at = open_page("lens", run="tiny", step="500")
    assert at.select_slider(key="step").value == 12
    assert "500" in said(at, "warning")


def test_an_unknown_language_and_statistic_fall_back_with_a_notice(runs: Path) -> None:
    at = open_page("lens", run="tiny", lang="tlh", statistic="magic")
    assert "magic" in said(at, "warning")
    assert at.query_params["lang"] in ("en", ["en"])


def test_notices_stay_until_dismissed(runs: Path) -> None:
    at = open_page("lens", run="tiny", step="500")
    checked(at.run())
    assert "500" in said(at, "warning")
    at.button(key="dismiss_0").click()
    checked(at.run())
    assert not at.warning


def test_another_model_with_fewer_layers_clamps_the_layer(runs: Path) -> None:
    at = open_page("attention", run="tiny", layer="1", head="1")
    at.selectbox(key="run").set_value("single")
    checked(at.run())
    assert (at.selectbox(key="layer").value, at.selectbox(key="head").value) == (0, 0)


def test_a_live_run_is_attached_to_without_being_asked_for(runs: Path) -> None:
    at = open_page("train")
    assert at.selectbox(key="run").value == "running"
    assert at.query_params["run"] == "running"
    assert "training, step" in said(at, "caption")
    assert "step 7 of 12" in str(at.get("progress")[0].proto.text)


def test_the_prompt_goes_into_the_link_unless_it_is_long(runs: Path) -> None:
    at = open_page("lens", run="tiny")
    at.text_area(key="prompt").set_value("the mat")
    checked(at.run())
    assert at.query_params["prompt"] == "the mat"
    at.text_area(key="prompt").set_value("the mat " * 500)
    checked(at.run())
    assert "prompt" not in at.query_params


def test_a_bad_checkpoint_is_refused_in_the_readers_words(runs: Path) -> None:
    assert "latest" not in said(open_page("lens", run="tiny", lang="zh", step="x"), "warning")


def test_every_parameter_that_a_page_reads_is_known_to_links() -> None:
    """Else a link's own parameter would be called one that no page reads; and none is listed that none reads."""
    import re
    from pathlib import Path

    import apps
    from apps.selection import PARAMETERS

    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(apps.__file__).parent.rglob("*.py"))
    calls = r"\b(?:prepare|prepare_text|one_of|_stepped|token_from)\(\s*(?:\"(\w+)\"|([A-Z_]+))"
    constants = dict(re.findall(r"^([A-Z_]+) = \"(\w+)\"$", source, re.MULTILINE))
    found = {name or constants[constant] for name, constant in re.findall(calls, source)}
    found.discard("steer_from")
    assert found == set(PARAMETERS)


@pytest.mark.parametrize(
    ("host", "foreign"),
    [
        (None, False), ("localhost", False), ("localhost:8501", False), ("LOCALHOST.:8501", False),
        ("127.0.0.1:1", False), ("[::1]:8501", False), ("evil.example", True), ("localhost.evil.example:80", True),
        ("localhost@evil.example", True), ("", True), ("[::2]", True), ("[", True),
    ],
)  # fmt: skip
def test_only_this_machines_names_are_its_own(host: str | None, foreign: bool) -> None:
    from apps.widgets.document import is_foreign

    assert is_foreign(host) is foreign
