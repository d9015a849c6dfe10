"""Runs on disk: what survives a crash, who is alive, what may be deleted."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.runs import (
    ENDED_SILENTLY,
    Run,
    RunBusyError,
    RunExistsError,
    RunNotFoundError,
    append_line,
    delete_run,
    find_run,
    fresh_run_path,
    keep_lines,
    list_runs,
    process_identity,
    read_lines,
    resume_training,
    run_path,
    write_json,
)
from lab.runs.checkpoints import step_folders
from lab.runs.process import process_record

CONFIG: dict[str, Any] = {"schema_version": 1, "training": {"steps": 10, "threads": 1}}


def make(path: Path, state: str = "done", **status: Any) -> Run:
    run = Run(path).create(CONFIG)
    run.write_status(state, status.pop("step", 5), 10, **status)
    return run


def forget_process(run: Run, **changes: Any) -> None:
    """Rewrite status.json as another process would have left it."""
    path = run.path / "status.json"
    write_json(path, json.loads(path.read_text()) | changes)


# --- files --------------------------------------------------------------------------------------------------


def test_json_is_strict_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    value = {"nan": math.nan, "inf": [np.float32("inf"), 1.5], "array": np.arange(3), "path": tmp_path, "字": "文"}
    write_json(path, value)
    text = path.read_text(encoding="utf-8")
    assert "NaN" not in text and "Infinity" not in text and "文" in text
    assert json.loads(text) == {"nan": None, "inf": [None, 1.5], "array": [0, 1, 2], "path": str(tmp_path), "字": "文"}
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        write_json(path, {"x": object()})
    assert json.loads(path.read_text(encoding="utf-8"))["array"] == [0, 1, 2], "a failed write loses nothing"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"], "no temporary file stays"


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"n": 0, "pad": "x" * 20_000})
    done = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not done.is_set():
            seen.append(json.loads(path.read_text())["n"])

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(200):
        write_json(path, {"n": n, "pad": "x" * 20_000}, durable=False)
    done.set()
    reader.join()
    assert seen == sorted(seen) and len(seen) > 1


def test_a_half_written_last_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert read_lines(path) == []
    for step in range(3):
        append_line(path, {"step": step, "loss": math.nan})
    with path.open("a") as file:
        file.write('{"step": 3, "lo')
    assert [row["step"] for row in read_lines(path)] == [0, 1, 2]
    assert read_lines(path)[0]["loss"] is None
    with path.open("ab") as file:
        file.write("é".encode()[:1])  # cut inside a character
    assert len(read_lines(path)) == 3
    keep_lines(path, lambda row: row["step"] <= 1)
    append_line(path, {"step": 2})
    assert [row["step"] for row in read_lines(path)] == [0, 1, 2], "the cut line is gone, not glued to the next"


# --- status -------------------------------------------------------------------------------------------------


def test_a_run_of_a_living_process_is_alive(tmp_path: Path) -> None:
    run = make(tmp_path / "a", "running")
    status = run.status()
    assert (status.state, status.step, status.max_steps, status.pid) == ("running", 5, 10, os.getpid())
    assert status.alive and status.active and not status.resumable
    assert status.seconds_since_update is not None and status.seconds_since_update < 5


@pytest.mark.parametrize("state", ["queued", "running", "paused"])
def test_a_run_whose_process_is_gone_reads_as_stopped(tmp_path: Path, state: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run = make(tmp_path / "a", state)
    forget_process(run, pid=child.pid, process=process_identity(child.pid))
    assert run.status().state == state and run.status().active
    child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while run.status().alive and time.monotonic() < deadline:  # a zombie until waited for, and dead all the same
        time.sleep(0.01)
    status = run.status()
    child.wait()
    child.stdin.close()  # type: ignore[union-attr]
    assert (status.state, status.error, status.alive, status.resumable) == ("stopped", ENDED_SILENTLY, False, True)
    assert run.status().state == "stopped"


def test_a_reused_process_number_fools_nobody(tmp_path: Path) -> None:
    run = make(tmp_path / "a", "running")
    forget_process(run, process="another boot:12345")  # our number, somebody else's life
    assert run.status().state == "stopped" and not run.status().alive


def test_a_run_of_another_machine_lives_by_its_heartbeat(tmp_path: Path) -> None:
    run = make(tmp_path / "a", "running")
    forget_process(run, host="elsewhere", pid=1, process="x")
    assert run.status().alive
    forget_process(run, heartbeat=time.time() - 3600)
    assert not run.status().alive


def test_a_process_number_alone_is_no_sign_of_life(tmp_path: Path) -> None:
    run = make(tmp_path / "a", "running")
    forget_process(run, process=None)
    assert run.status().active
    for heartbeat in (time.time() - 3600, time.time() + 3600, None):
        forget_process(run, process=None, heartbeat=heartbeat)
        assert run.status().state == "stopped" and not run.status().active, heartbeat


def test_a_queued_run_whose_process_never_came_is_not_waited_for_forever(tmp_path: Path) -> None:
    run = Run(tmp_path / "a").create(CONFIG)
    assert run.status().state == "queued" and run.status().active
    forget_process(run, heartbeat=time.time() - 3600)
    assert run.status().state == "stopped" and run.status().resumable


@pytest.mark.parametrize("state", ["done", "diverged", "failed", "stopped"])
def test_an_ended_run_stays_what_it_is(tmp_path: Path, state: str) -> None:
    status = make(tmp_path / "a", state, error="why").status()
    assert (status.state, status.error, status.active) == (state, "why", False)
    assert status.resumable == (state in ("failed", "stopped"))


def test_an_unknown_state_is_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    with pytest.raises(ValueError, match='"runing" is no state of a run'):
        run.write_status("runing", 0, 10)


# --- one run, one folder, one trainer -----------------------------------------------------------------------


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(RunExistsError, match="already holds a run"):
        Run(tmp_path / "a").create({"other": 1})
    assert Run(tmp_path / "a").config == CONFIG
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunExistsError, match="is a file"):
        Run(tmp_path / "file").create(CONFIG)


def _create(path: str, barrier: Any, results: Any) -> None:
    barrier.wait()
    try:
        Run(path).create({"pid": os.getpid()})
        results.put(os.getpid())
    except RunExistsError:
        results.put(None)


def test_of_two_that_create_one_run_at_once_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    children = [context.Process(target=_create, args=(str(tmp_path / "a"), barrier, results)) for _ in range(2)]
    for child in children:
        child.start()
    outcomes = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    winner = [pid for pid in outcomes if pid is not None]
    assert len(winner) == 1 and Run(tmp_path / "a").config == {"pid": winner[0]}


def test_a_second_trainer_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    hold = f"""
import time
from lab.runs import Run
lock = Run({str(run.path)!r}).lock().acquire()
print(1, flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert holder.stdout is not None and holder.stdout.readline() == b"1\n"
    with pytest.raises(RunBusyError, match=str(holder.pid)), run.lock():
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with run.lock(), pytest.raises(RunBusyError), run.lock():
        pass
    with run.lock():
        pass


# --- requests -----------------------------------------------------------------------------------------------


def test_requests_are_files_in_control(tmp_path: Path) -> None:
    run = make(tmp_path / "a", "running")
    assert not run.requested("stop") and not run.requested("pause")
    run.request_pause()
    run.request_stop()
    assert sorted(os.listdir(run.path / "control")) == ["pause", "stop"]
    run.request_continue()
    assert run.requested("stop") and not run.requested("pause")
    run.clear_requests()
    assert os.listdir(run.path / "control") == []
    with pytest.raises(RunNotFoundError):
        Run(tmp_path / "none").request_stop()


def test_resuming_a_paused_living_run_only_lets_it_go_on(tmp_path: Path) -> None:
    run = make(tmp_path / "a", "paused")
    run.request_pause()
    resume_training(run)
    assert not run.requested("pause") and not (run.path / "log.txt").exists(), "no second process"


@pytest.mark.parametrize(("state", "words"), [("done", "is done"), ("diverged", "lower learning rate")])
def test_what_is_over_is_not_resumed(tmp_path: Path, state: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        resume_training(make(tmp_path / "a", state, error="diverged at step 3"))


# --- names, lists, deletion ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/../../x", "/etc", "a//b", "a b", "-x", ".hidden", "a\n", "C:\\x"]
)
def test_names_that_could_leave_the_root_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a run"):
        run_path(name, tmp_path)


def test_good_names(tmp_path: Path) -> None:
    assert run_path("study/arm-1/seed_0.x", tmp_path) == tmp_path / "study" / "arm-1" / "seed_0.x"
    assert run_path("宋词", tmp_path) == tmp_path / "宋词"
    assert fresh_run_path("a", tmp_path) == tmp_path / "a"
    (tmp_path / "a").mkdir()
    assert fresh_run_path("a", tmp_path) == tmp_path / "a-2"


def test_a_link_inside_the_root_is_no_way_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "runs", make(tmp_path / "outside" / "x")
    root.mkdir()
    (root / "link").symlink_to(outside.path.parent)
    with pytest.raises(ValueError, match="leads out of"):
        run_path("link/x", root)
    with pytest.raises(ValueError, match="not inside"):
        delete_run(root / "link" / "x", root)
    (root / "direct").symlink_to(outside.path)
    with pytest.raises(ValueError, match="is a link"):
        delete_run(root / "direct", root)
    assert outside.exists()


def test_runs_are_listed_with_the_newest_first(runs_folder: Path) -> None:
    assert list_runs() == [] and list_runs(runs_folder / "none") == []
    for number, name in enumerate(["a", "study/arm/s0", "b"]):
        run = make(runs_folder / name)
        os.utime(run.path / "status.json", (number, number))
    (runs_folder / "not a run").mkdir()
    assert [run.id for run in list_runs()] == ["b", "study/arm/s0", "a"]
    assert find_run("b").path == runs_folder / "b" and find_run(runs_folder / "a").id == "a"
    with pytest.raises(RunNotFoundError, match=r"no run at study/arm/s1.*"):
        find_run("study/arm/s1")


def test_only_runs_inside_the_root_are_deleted(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run, outside = make(root / "a"), make(tmp_path / "outside")
    (root / "folder").mkdir()
    for target, error in [
        (outside, ValueError),
        (root, ValueError),
        (root / "..", ValueError),
        (root / "folder", RunNotFoundError),
    ]:
        with pytest.raises(error):
            delete_run(target, root)
    run.write_status("running", 1, 10)
    with pytest.raises(RunBusyError, match="is being trained"):
        delete_run(run, root)
    assert run.exists() and outside.exists()
    run.write_status("stopped", 1, 10)
    delete_run(run, root)
    assert sorted(entry.name for entry in root.iterdir()) == ["folder"]


# --- checkpoints --------------------------------------------------------------------------------------------


def test_only_whole_checkpoints_count(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    for name in ("step_000010", "step_000002", "step_1000000", ".step_000020.77.tmp", "other"):
        (run.path / "checkpoints" / name).mkdir()
        (run.path / "checkpoints" / name / "model.safetensors").touch()
    arabic = "step_\u0660\u0660\u0660\u0660\u0661\u0660"
    for name in ("step_10", "step_0000010", "step_-00010", "step_01000000", arabic):
        (run.path / "checkpoints" / name).mkdir()  # copied by hand beside the checkpoint of the same number
        (run.path / "checkpoints" / name / "model.safetensors").touch()
    (run.path / "checkpoints" / "step_000030").mkdir()  # empty
    assert run.checkpoints() == [2, 10, 1_000_000]
    assert [(step, path.name) for step, path in step_folders(run).items()] == [
        (1_000_000, "step_1000000"), (30, "step_000030"), (10, "step_000010"), (2, "step_000002"),
    ]  # fmt: skip
    assert run.checkpoint_path().name == "step_1000000" and run.checkpoint_path(2).name == "step_000002"
    assert run.checkpoint_path("10").name == "step_000010"
    with pytest.raises(RunNotFoundError, match="it has: 2, 10, 1000000"):
        run.checkpoint_path(3)
    with pytest.raises(RunNotFoundError, match="no checkpoint best"):
        run.checkpoint_path("best")
    write_json(run.path / "best.json", {"step": 10, "val_loss": 1.5})
    assert run.checkpoint_path("best").name == "step_000010"


def test_the_record_of_a_process_names_it(tmp_path: Path) -> None:
    record = process_record()
    assert record["pid"] == os.getpid() and record["process"] == process_identity(os.getpid()) is not None
    assert process_identity(2**22 + 1) is None


def test_runs_need_no_torch() -> None:
    modules = "lab, lab.runs, lab.training, lab.training.config, lab.training.recipe, lab.training.data"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
