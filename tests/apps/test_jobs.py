"""Jobs from the browser: one for one configuration, no more than the machine has cores, steered through the folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from apps import jobs
from lab.runs import Run, list_runs, queue
from lab.training import RunConfig, build_run_config
from tests.apps.opening import checked, open_page, said
from tests.apps.training import text


def config(folder: Path, steps: int = 2000, seed: int = 0) -> RunConfig:
    corpus = folder.parent / "jobs.txt"
    corpus.write_text(text(), encoding="utf-8")
    shape = {"n_layers": 1, "d_model": 16, "n_heads": 2, "n_ctx": 16}
    training = {"batch_size": 2, "checkpoint_every": 10_000, "eval_every": 10_000, "sample_every": 0, "dynamics": False}
    return build_run_config(
        str(corpus), "nano", "textbook", steps=steps, seed=seed, tokenizer="char", model_overrides=shape,
        training_overrides=training,
    )  # fmt: skip


def wait(run: Run, *states: str, step: int = 0) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        status = run.status()
        if status.state in states and status.step >= step:
            return
        time.sleep(0.05)
    raise AssertionError(f"{run.status()}, waiting for {states}\n{run.log()}")


def test_one_job_for_one_configuration_and_the_next_starts_by_itself(runs_folder: Path) -> None:
    queue.set_places(1)
    asked, found = config(runs_folder, steps=1_000_000), []
    threads = [threading.Thread(target=lambda: found.append(jobs.start(asked, "one"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [s.new for s in found].count(True) == 1 and len(list_runs()) == 1
    first = found[0].run
    wait(first, "running", step=1)  # by now the trainer has filled in what was left open
    assert jobs.start(asked, "one") == jobs.Started(first, new=False)
    second = jobs.start(config(runs_folder, steps=3, seed=1), "two")
    assert second.new and second.waits
    assert jobs.start(config(runs_folder, steps=3, seed=1), "two") == jobs.Started(second.run, new=False, waits=True)
    third = jobs.start(config(runs_folder, steps=3, seed=2), "three").run
    wait(second.run, "queued")
    jobs.stop(third)
    wait(third, "stopped")
    deadline = time.monotonic() + 30  # a run says that it stopped before it leaves the queue
    while queue.waiting_runs() != [second.run]:
        assert time.monotonic() < deadline, queue.waiting_runs()
        time.sleep(0.05)
    assert first.status().state == "running"
    jobs.stop(first)
    wait(first, "stopped")
    again = jobs.start(asked, "one")  # what is over may be asked for once more
    assert again.new and again.run.id == "one-2"
    jobs.stop(again.run)
    wait(second.run, "done")
    wait(again.run, "stopped")
    assert jobs.resume(third) == jobs.Started(third, new=False)
    wait(third, "done")
    assert {run.id for run in list_runs()} == {"one", "one-2", "two", "three"}


def test_pause_resume_death_and_stop_from_the_page(runs_folder: Path) -> None:
    run = jobs.start(config(runs_folder, steps=1_000_000), "steered").run
    wait(run, "running", step=5)
    at = open_page("train", run="steered")
    assert (at.button(key="pause").disabled, at.button(key="resume").disabled) == (False, True)
    at.button(key="pause").click()
    checked(at.run())
    wait(run, "paused")
    checked(at.run())
    assert "paused" in said(at, "caption") and not at.button(key="resume").disabled
    paused_at = run.status().step
    at.button(key="resume").click()
    checked(at.run())
    wait(run, "running", step=paused_at + 1)

    pid = run.status().pid
    assert pid is not None
    os.kill(pid, 9)  # the machine's doing, not the reader's
    wait(run, "stopped")
    checked(at.run())
    assert "without saying so" in said(at, "warning")
    at.button(key="resume").click()
    checked(at.run())
    wait(run, "running", step=1)

    checked(at.run())
    at.button(key="stop").click()
    checked(at.run())
    wait(run, "stopped")
    checked(at.run())
    assert "Stopped at step" in said(at, "info") and not at.button(key="resume").disabled


def test_the_first_look_is_small_and_built_in() -> None:
    from model import count_parameters

    tiny = jobs.tiny_config()
    assert tiny.data.corpus == "stories" and tiny.training.steps <= 400
    assert count_parameters(tiny.model).non_embedding < 200_000


FIRST_PAINT = """
import sys
from streamlit.testing.v1 import AppTest
at = AppTest.from_file({explorer!r}, default_timeout=120).run()
assert not at.exception, at.exception[0].message
slow = {{"torch", "transformer_lens", "transformers", "sklearn", "scipy"}} & set(sys.modules)
assert not slow, slow
assert at.button(key="tiny_train") and at.button(key="start")
at.run()  # the browser asks for this as soon as it has drawn the first
assert not at.exception, at.exception[0].message
assert not at.button(key="start").disabled
slow = {{"torch", "transformer_lens", "transformers", "sklearn", "scipy"}} & set(sys.modules)
assert not slow, slow
"""


def test_the_first_page_imports_nothing_slow(runs_folder: Path, root: Path) -> None:
    script = FIRST_PAINT.format(explorer=str(root / "apps" / "explorer.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=runs_folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
