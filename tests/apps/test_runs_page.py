"""The table of runs says what the folders say, and its buttons do what they say, to runs in the folder only."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from apps import run_table
from lab.runs import Run, list_runs, queue
from tests.apps.opening import checked, code, open_page, said, unescaped
from tests.apps.training import KINDS


def table(at: AppTest) -> dict[str, dict[str, object]]:
    """Run -> its row."""
    frame = at.dataframe[0].value
    return {row["run"]: row for row in frame.to_dict("records")}


def test_the_table_says_what_the_folders_say(runs: Path) -> None:
    from model import count_parameters
    from model.accounting import format_bytes
    from model.config import GPTConfig

    weights = runs / "studies" / "heads-smoke" / "runs" / "four" / "tune-1" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(bytes(3 << 20))
    at = open_page("runs", run="tiny", lang="en")
    rows = table(at)
    assert set(rows) == set(KINDS)
    run = Run(runs / "tiny")
    losses = [m["val_loss"] for m in run.metrics() if m["val_loss"] is not None]
    assert rows["tiny"]["val_loss"] == losses[-1] and rows["tiny"]["best_loss"] == min(losses)
    assert rows["tiny"]["parameters"] == count_parameters(GPTConfig.from_dict(run.config["model"])).total
    assert rows["tiny"]["state"] == "done, 12 steps" and rows["tiny"]["progress"] == 1.0
    assert rows["tiny"]["corpus"] == "text.txt"
    assert "training, step 7 of 12" in str(rows["running"]["state"]) and str(rows["running"]["left"])[0].isdigit()
    assert "diverged" in str(rows["diverged"]["state"])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code(at), {})
    assert f"tiny done 12 12 {losses[-1]}" in printed.getvalue().splitlines()
    size = sum(path.stat().st_size for path in (runs / "tiny").rglob("*") if path.is_file())
    found = next(row for row in run_table.rows() if row.run == run)
    assert found.bytes == size
    disk = next(metric for metric in at.metric if metric.label == "On disk")
    assert disk.value == format_bytes(sum(row.bytes for row in run_table.rows()) + (3 << 20))  # the studies' too
    assert next(iter(rows)) == "running"  # what is being trained comes first


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_run_that_went_wrong_says_so_until_it_is_dismissed(lang: str, runs: Path) -> None:
    at = open_page("runs", run="tiny", lang=lang)
    assert "diverged" in said(at, "error")
    at.button(key="seen_diverged").click()
    checked(at.run())
    assert "diverged" not in said(at, "error")
    assert "diverged" not in said(open_page("runs", run="tiny"), "error")  # another tab, another day
    Run(runs / "diverged").write_status("failed", 3, 12, error="the disk is full", process=None)
    assert "the disk is full" in said(open_page("runs", run="tiny"), "error")  # it was tried again


def test_runs_are_deleted_only_when_chosen_and_confirmed(runs: Path) -> None:
    at = open_page("runs", run="tiny", lang="en")
    assert set(at.multiselect(key="runs_doomed").options) == set(KINDS) - {"running"}
    assert at.button(key="runs_delete").disabled
    at.multiselect(key="runs_doomed").set_value(["single"])
    checked(at.run())
    at.checkbox(key="runs_sure").check()
    checked(at.run())
    at.multiselect(key="runs_doomed").set_value(["single", "diverged"])
    checked(at.run())
    assert at.button(key="runs_delete").disabled  # it was for one run that the reader said yes
    at.checkbox(key="runs_sure").check()
    checked(at.run())
    at.button(key="runs_delete").click()
    checked(at.run())
    assert {run.id for run in list_runs()} == set(KINDS) - {"single", "diverged"}
    assert set(table(at)) == {run.id for run in list_runs()} and at.multiselect(key="runs_doomed").value == []


def test_deleting_the_picked_run_shows_another_without_a_word(runs: Path) -> None:
    at = open_page("runs", run="single", lang="en")
    at.multiselect(key="runs_doomed").set_value(["single"])
    checked(at.run())
    at.checkbox(key="runs_sure").check()
    checked(at.run())
    at.button(key="runs_delete").click()
    checked(at.run())
    assert at.selectbox(key="run").value == "running" and not at.warning


def test_a_run_is_renamed_and_bad_names_are_a_sentence(runs: Path) -> None:
    at = open_page("runs", run="tiny", lang="en")
    at.text_input(key="runs_name").set_value("../out")
    checked(at.run())
    at.button(key="runs_rename").click()
    checked(at.run())
    assert "cannot be the name of a run" in said(at, "error") and (runs / "tiny").is_dir()
    at.text_input(key="runs_name").set_value("small")
    checked(at.run())
    at.button(key="runs_rename").click()
    checked(at.run())
    assert at.selectbox(key="run").value == "small" and Run(runs / "small").exists() and not (runs / "tiny").exists()


def test_waiting_runs_show_their_turn_and_can_be_moved_held_and_stopped(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "ensure_dispatcher", lambda root=None: False)  # nobody starts them here
    queue.set_places(1)
    for name in ("tiny", "single"):
        run = Run(runs / name)
        run.write_status("stopped", 6, 12, process=None)
        queue.enqueue(run)
    at = open_page("runs", run="single", lang="en")
    rows = table(at)
    assert (rows["tiny"]["state"], rows["single"]["state"]) == ("waits, place 1", "waits, place 2")
    assert list(rows)[:3] == ["running", "tiny", "single"]
    assert {"single", "tiny"} & set(at.multiselect(key="runs_doomed").options) == set()
    assert "place 2" in said(open_page("train", run="single", lang="en"), "info")
    at.button(key="runs_first").click()
    checked(at.run())
    assert queue.waiting_runs() == [Run(runs / "single"), Run(runs / "tiny")]
    at.button(key="runs_pause").click()
    checked(at.run())
    assert table(at)["single"]["state"] == "held in the queue, place 1"
    at.button(key="runs_resume").click()
    checked(at.run())
    assert not Run(runs / "single").requested("pause")
    at.button(key="runs_stop").click()
    checked(at.run())
    assert Run(runs / "single").requested("stop")


def test_the_number_at_once_is_kept_on_disk_and_bounded(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    at = open_page("runs", run="tiny", lang="en")
    assert at.number_input(key="runs_places").value == 4
    at.number_input(key="runs_places").set_value(2)
    checked(at.run())
    assert queue.places() == 2
    assert any("of 2" in str(metric.value) for metric in at.metric)
    assert open_page("runs", run="tiny").number_input(key="runs_places").value == 2


def test_little_disk_space_is_said(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_table, "free_bytes", lambda: 10_000_000)
    assert "Only 9.5 MiB are free" in said(open_page("runs", run="tiny", lang="en"), "warning")


def test_the_picked_runs_buttons_fit_its_state(runs: Path) -> None:
    at = open_page("runs", run="running", lang="en")
    off = {name: at.button(key=f"runs_{name}").disabled for name in ("pause", "resume", "stop", "first")}
    assert off == {"pause": False, "resume": True, "stop": False, "first": True}
    at.button(key="runs_pause").click()
    checked(at.run())
    assert Run(runs / "running").requested("pause") and not at.button(key="runs_resume").disabled
    at = open_page("runs", run="diverged", lang="en")
    assert all(at.button(key=f"runs_{name}").disabled for name in ("pause", "resume", "stop"))
    assert "diverged" in unescaped("\n".join(m.value for m in at.markdown))


def test_a_damaged_run_hides_no_other(runs: Path) -> None:
    (runs / "single" / "config.json").write_text("{")
    (runs / "postnorm" / "status.json").write_text("[]")
    (runs / ".queue").mkdir()
    (runs / ".queue" / "00000000000000000007.json").write_text("nonsense")
    rows = table(open_page("runs", run="tiny", lang="en"))
    assert {"tiny", "running", "diverged", "single", "postnorm"} <= set(rows)  # listed, so that they can be deleted
    assert rows["postnorm"]["state"] == "failed at step 0" and not rows["single"]["corpus"]


def test_the_json_is_strict(runs: Path) -> None:
    from apps.views import runs as page

    found = json.loads(page._json(run_table.rows()))
    assert {row["run"] for row in found} == set(KINDS)
    assert "<td>tiny</td>" in page._html(run_table.rows())
