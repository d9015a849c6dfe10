"""A folder of runs of which one is damaged: the others are listed as ever, and the bad one says what is wrong."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from lab.cli import DONE, main
from lab.runs import Run, list_runs, list_statuses, queue
from tests.lab.damages import DAMAGES, METRICS, as_nobody

CONFIG = {"schema_version": 1, "model": {}, "data": {"corpus": "stories"}, "training": {"steps": 10, "threads": 1}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a sound run, `good`, and one to be damaged, `bad`."""
    for name in ("good", "bad"):
        run = Run(tmp_path / "runs" / name).create(CONFIG)
        run.write_status("done", 10, 10)
        run.append("metrics", {"step": 10, "train_loss": 2.5, "val_loss": 2.0, "seconds": 3.0})
    monkeypatch.setenv("RESIDLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_hides_no_other(damage: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGES[damage].make(root / "bad")
    assert main(["runs"]) == DONE
    said = capsys.readouterr()
    assert f"{root / 'good'}  done" in said.out
    assert "Traceback" not in said.err
    assert main(["runs", "--json"]) == DONE
    rows = {Path(row["run"]).name: row for row in json.loads(capsys.readouterr().out)}
    assert rows["good"]["val_loss"] == 2.0
    if DAMAGES[damage].of_status:
        assert rows["bad"]["state"] == "failed"
        assert "status.json" in rows["bad"]["error"]
        assert str(root / "bad") in said.err


@pytest.mark.parametrize("damage", [name for name, damage in DAMAGES.items() if not damage.of_status])
def test_what_is_asked_of_a_damaged_run_is_answered_or_refused(damage: str, root: Path) -> None:
    DAMAGES[damage].make(root / "bad")
    run = Run(root / "bad")
    for ask in (run.status, run.metrics, run.samples, run.dynamics, run.events, run.best, run.checkpoints, run.log,
                lambda: run.config, lambda: run.provenance):  # fmt: skip
        try:
            ask()
        except (OSError, ValueError) as problem:
            assert str(root / "bad") in str(problem)


def test_damaged_lines_are_passed_over_and_whole_ones_kept(root: Path) -> None:
    run = Run(root / "good")
    with (run.path / "metrics.jsonl").open("a") as file:
        for line in (
            '{"step": "x", "val_loss": 1}',
            '{"step": 11, "val_loss": "low"}',
            '{"val_loss": 1}',
            "[" * 90_000,
            '{"step": 12, "val_loss": ' + "1" * 5000 + "}",
            '{"step": true}',
            '{"step": -5, "val_loss": 0.5}',
            *(json.dumps({"step": 11, name: number}) for name in METRICS for number in (10**400, -(10**400))),
            json.dumps({"step": 10**400, "val_loss": 0.5}),
            '{"step": 13, "val_loss": 1.5}',
        ):
            file.write(line + "\n")
    assert [row["step"] for row in run.metrics()] == [10, 13]


def test_a_run_that_goes_away_between_the_listing_and_the_look_is_left_out(root: Path) -> None:
    gone, stop = root / "bad", threading.Event()

    def blink() -> None:
        while not stop.is_set():
            os.rename(gone, root / ".away")
            time.sleep(0.0002)
            os.rename(root / ".away", gone)
            time.sleep(0.0002)

    thread = threading.Thread(target=blink)
    thread.start()
    try:
        for _ in range(300):
            assert Run(root / "good") in [run for run, _ in list_statuses(root)]
            queue.taken_places(root)
            main(["runs", "--json"])
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "a\nb", "a\rb", "\x07", "\x9b31m", "\u202ereversed", "\u2028"])
def test_an_error_stays_in_its_line(text: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run(root / "bad").write_status("failed", 3, 10, error=f"it said {text}.")
    assert main(["runs"]) == DONE
    assert capsys.readouterr().err == f"{root / 'bad'}: it said {repr(text)[1:-1]}.\n"


def test_a_folder_whose_name_is_not_utf8_is_told_of(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.rename(root / "bad", os.fsencode(root) + b"/bad\xff")
    assert [run.id for run in list_runs(root)] == ["good"]
    assert main(["runs"]) == DONE
    said = capfd.readouterr()
    assert "good" in said.out
    assert "bad\\xff is passed over, because its name is not UTF-8: rename it" in said.err


@pytest.mark.parametrize("name", ["status.json", "metrics.jsonl", "config.json", ""])
def test_what_may_not_be_read_hides_no_other(name: str, root: Path) -> None:
    (root / "bad" / name).chmod(0)
    said = as_nobody(root, "runs", "--json")
    assert said.returncode == DONE, said.stderr
    rows = {Path(row["run"]).name: row for row in json.loads(said.stdout)}
    assert rows["good"]["val_loss"] == 2.0
    if name != "config.json":
        told = said.stderr if not name else rows["bad"]["error"]
        assert "Permission denied" in told
    (root / "bad" / name).chmod(0o755)


def test_a_root_that_may_not_be_read_is_no_empty_one(root: Path) -> None:
    root.chmod(0)
    for words in (["runs", "--root", str(root)], ["runs"], ["runs", "--json"]):
        said = as_nobody(root, *words)
        assert (said.returncode, said.stdout) == (2, "")
        assert "Permission denied" in said.stderr and str(root) in said.stderr
    root.chmod(0o755)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[]", '{"run": 3}', '{"run": null}', '{"run": "../x"}', "1" * 5000, "\x00"]
)
@pytest.mark.parametrize("file", ["00000000000000000001.json", "settings.json", "dispatcher.json"])
def test_a_damaged_queue_is_passed_over(file: str, text: str, root: Path) -> None:
    (root / ".queue").mkdir()
    (root / ".queue" / file).write_text(text)
    assert queue.waiting_runs(root) == []
    assert queue.places(root) >= 1
    assert not queue.dispatcher_alive(root)
    assert queue.has_room(1, root)


def test_two_thousand_runs_are_listed_within_a_second_once_they_are_known(tmp_path: Path) -> None:
    for number in range(2000):
        run = Run(tmp_path / f"r{number:04d}")
        run.path.mkdir()
        (run.path / "config.json").write_text(json.dumps(CONFIG))
        (run.path / "status.json").write_text('{"state": "done", "step": 10, "max_steps": 10, "heartbeat": 1.0}')
        (run.path / "metrics.jsonl").write_text('{"step": 10, "val_loss": 2.0}\n' * 20)
    from lab.runs.summary import losses

    def look() -> float:
        began = time.process_time()
        found = [(status, losses(run)) for run, status in list_statuses(tmp_path)]
        assert len(found) == 2000
        return time.process_time() - began

    look()
    assert min(look() for _ in range(3)) < 1.0
