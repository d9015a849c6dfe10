"""Runs that wait: in order, no more at once than there is room for, whoever starts or kills what meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lab.runs import Run, list_runs, queue, resume_training
from lab.runs.queue import Dispatcher, dispatcher_alive, enqueue, has_room, set_places, taken_places, waiting_runs

STRANGER = {"pid": 2**22 + 1, "process": "gone", "host": os.uname().nodename}


def make(root: Path, name: str, threads: int = 1) -> Run:
    run = Run(root / name).create({"schema_version": 1, "training": {"steps": 10, "threads": threads}})
    run.write_status("stopped", 0, 10, process=None)  # else it would count as one that is just being started
    return run


@pytest.fixture
def root(runs_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder whose trainers are this process, and whose dispatcher is the test."""
    monkeypatch.setattr(queue, "ensure_dispatcher", lambda root=None: False)
    monkeypatch.setattr(queue, "spawn_trainer", lambda run: run.write_status("running", run.status().step, 10))
    set_places(2)
    return runs_folder


def states(root: Path) -> dict[str, str]:
    return {run.id: run.status().state for run in list_runs(root)}


def test_as_many_as_there_is_room_for_start_in_order_and_the_next_when_one_ends(root: Path) -> None:
    runs = [make(root, name) for name in "abcd"]
    assert has_room(1)
    for run in runs:
        enqueue(run)
        time.sleep(0.001)
    assert waiting_runs() == runs and not has_room(1)
    dispatcher = Dispatcher(root)
    assert dispatcher.turn()
    assert states(root) == {"a": "running", "b": "running", "c": "queued", "d": "queued"}
    assert runs[2].status().alive and waiting_runs() == runs[2:]  # claimed: alive as long as this process
    assert dispatcher.turn() and taken_places() == 2
    runs[0].write_status("done", 10, 10)
    queue.move_first(runs[3])
    assert dispatcher.turn()
    assert states(root)["d"] == "running" and states(root)["c"] == "queued"
    runs[1].write_status("failed", 4, 10, error="x")
    assert not dispatcher.turn() and waiting_runs() == []
    assert has_room(1) is False and taken_places() == 2


def test_a_run_takes_as_many_places_as_it_has_threads_and_a_large_one_is_not_overtaken(root: Path) -> None:
    small, large, last = make(root, "a"), make(root, "b", threads=8), make(root, "c")
    for run in (small, large, last):
        enqueue(run)
        time.sleep(0.001)
    dispatcher = Dispatcher(root)
    dispatcher.turn()
    assert states(root) == {"a": "running", "b": "queued", "c": "queued"}
    small.write_status("done", 10, 10)
    dispatcher.turn()
    assert states(root)["b"] == "running" and states(root)["c"] == "queued"  # alone, it may take more than there are


def test_a_paused_run_takes_no_place_and_waits_like_others_to_go_on(root: Path) -> None:
    set_places(1)
    paused, other = make(root, "paused"), make(root, "other")
    paused.write_status("paused", 3, 10)
    paused.request_pause()
    assert has_room(1)
    other.write_status("running", 0, 10)
    enqueue(paused)
    dispatcher = Dispatcher(root)
    assert dispatcher.turn() and paused.status().state == "paused" and paused.requested("pause")
    other.write_status("done", 10, 10)
    third = make(root, "third")
    enqueue(third)
    assert dispatcher.turn()
    assert not paused.requested("pause") and waiting_runs() == [third]  # its place is kept until it says it goes on
    assert third.status().state == "queued"


def test_stop_takes_a_run_out_and_pause_holds_it(root: Path) -> None:
    set_places(1)
    runs = [make(root, name) for name in "abc"]
    for run in runs:
        enqueue(run)
        time.sleep(0.001)
    runs[0].request_pause()
    runs[1].request_stop()
    dispatcher = Dispatcher(root)
    assert dispatcher.turn()
    assert states(root) == {"a": "queued", "b": "stopped", "c": "running"}
    assert not runs[1].requested("stop") and waiting_runs() == [runs[0]]
    runs[0].request_continue()
    runs[2].write_status("done", 10, 10)
    assert not dispatcher.turn() and states(root)["a"] == "running"


def test_what_a_dead_dispatcher_had_claimed_is_claimed_again(root: Path) -> None:
    set_places(1)
    busy, run = make(root, "busy"), make(root, "a")
    busy.write_status("running", 0, 10)
    enqueue(run)
    run.write_status("queued", 0, 10, process=STRANGER)
    assert run.status().state == "stopped"  # nobody is there
    assert Dispatcher(root).turn() and run.status().state == "queued" and run.status().pid == os.getpid()


def test_what_ended_some_other_way_leaves_the_queue(root: Path) -> None:
    set_places(1)
    make(root, "busy").write_status("running", 0, 10)
    done, failed, taken, gone = (make(root, name) for name in ("done", "failed", "taken", "gone"))
    for run in (done, failed, taken, gone):
        enqueue(run)
    done.write_status("done", 10, 10)
    failed.write_status("failed", 0, 10, error="no corpus")
    taken.write_status("running", 1, 10, process={**STRANGER, "pid": os.getppid(), "process": None})
    (gone.path / "config.json").unlink()
    (root / ".queue" / "00000000000000000001.json").write_text("{")
    assert not Dispatcher(root).turn()
    assert [path.name for path in (root / ".queue").glob("0*.json")] == []
    assert states(root) == {"busy": "running", "done": "done", "failed": "failed", "taken": "running"}


@pytest.mark.parametrize("name", ["../outside", "/etc", "a/../../outside", ""])
def test_an_entry_never_names_a_run_outside_the_root(name: str, root: Path) -> None:
    make(root.parent, "outside")
    (root / ".queue").mkdir(exist_ok=True)
    (root / ".queue" / "00000000000000000001.json").write_text(json.dumps({"run": name}))
    assert waiting_runs() == []
    with pytest.raises(ValueError, match="is not inside"):
        enqueue(Run(root.parent / "outside"))


def test_only_what_can_be_trained_is_queued(root: Path) -> None:
    run = make(root, "a")
    run.write_status("done", 10, 10)
    with pytest.raises(ValueError, match="is done"):
        enqueue(run)
    run.write_status("running", 1, 10)
    with pytest.raises(ValueError, match="being trained already"):
        enqueue(run)
    run.write_status("stopped", 0, 10)  # of a run that knows a step, a checkpoint is asked
    run.request_stop()
    enqueue(run)
    enqueue(run)
    assert waiting_runs() == [run] and run.status().state == "queued" and run.status().step == 0
    assert not run.requested("stop")  # that was asked of the process before
    with pytest.raises(ValueError, match="at least one"):
        set_places(0)
    with pytest.raises(ValueError, match="does not wait"):
        queue.move_first(make(root, "b"))


def test_the_number_of_places_is_the_cores_unless_it_was_set(runs_folder: Path) -> None:
    assert queue.places() == os.cpu_count()
    set_places(3)
    assert queue.places() == 3
    for damage in ("{", '{"at_once": "many"}', '{"at_once": 0}'):
        (runs_folder / ".queue" / "settings.json").write_text(damage)
        assert queue.places() == os.cpu_count()
    assert list_runs() == []  # the queue's folder is no run


def wait_for(what: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_real_runs_start_by_themselves_also_after_the_dispatcher_was_killed(runs_folder: Path) -> None:
    from lab.training import build_run_config

    corpus = runs_folder.parent / "text.txt"
    corpus.write_text("the cat sat on the mat. " * 100, encoding="utf-8")
    shape = {"n_layers": 1, "d_model": 8, "n_heads": 1, "n_ctx": 8}
    training = {"batch_size": 2, "eval_every": 100, "sample_every": 0, "checkpoint_early": False, "dynamics": False}
    config = build_run_config(
        str(corpus), "nano", "textbook", steps=3, tokenizer="char", model_overrides=shape, training_overrides=training
    )
    set_places(1)
    busy = make(runs_folder, "busy")
    busy.write_status("running", 0, 10)
    runs = [Run(runs_folder / name).create(config.to_dict()) for name in "ab"]
    for run in runs:
        enqueue(run)
    wait_for(lambda: dispatcher_alive() and all(run.status().pid for run in runs))
    # Two dispatchers were started at once: one leaves again, and would stay if the other were killed before that.
    wait_for(lambda: [child.poll() for child in queue._children].count(None) == 1)
    first = queue.read_json(queue._folder(None) / queue._DISPATCHER)["pid"]
    assert first is not None and first != os.getpid()
    assert queue.ensure_dispatcher() is False  # there is one
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not dispatcher_alive())
    assert waiting_runs() == runs  # the queue is on disk
    busy.write_status("done", 10, 10)
    assert queue.ensure_dispatcher()
    wait_for(lambda: all(run.status().state == "done" for run in runs))
    ends = [next(e["time"] for e in run.events() if e["event"] == kind) for run in runs for kind in ("start", "done")]
    assert ends == sorted(ends)  # one after the other
    wait_for(lambda: not dispatcher_alive())  # nobody waits: it ends by itself
    with pytest.raises(ValueError, match="is done"):
        resume_training(runs[0])
