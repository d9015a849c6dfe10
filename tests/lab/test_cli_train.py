"""residlab train, pause, stop and resume: what a run is after each, and with which exit code."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.cli import DIVERGED, DONE, main
from lab.commands.progress import Progress
from lab.commands.train import _report
from lab.runs import Run

if TYPE_CHECKING:
    from tests.lab.conftest import TrainedFolder

ROOT = Path(__file__).resolve().parents[2]
Refused = Callable[..., str]


def test_train_writes_a_run_and_reports_its_losses(trained: TrainedFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert trained.train("reported", "--steps", "4", "--seed", "3") == DONE
    said = capsys.readouterr()
    run = Run(trained.run("reported"))
    assert run.status().state == "done"
    assert run.config["model"]["d_model"] == 16
    assert run.config["training"]["seed"] == 3
    last = run.metrics()[-1]["val_loss"]
    assert f"done at step 4 of 4, val {last:.4f}" in said.out
    assert "step 4/4" in said.err  # progress is on stderr, so that stdout can be read by a program


def test_an_existing_run_is_refused_with_the_fix(trained: TrainedFolder, refused: Refused) -> None:
    before = (trained.run("a") / "metrics.jsonl").read_bytes()
    path = str(trained.run("a"))
    said = refused(*trained.words("a"))
    assert f"residlab train --resume {path}" in said
    assert "--run" in said
    assert (trained.run("a") / "metrics.jsonl").read_bytes() == before


def test_without_a_name_a_run_gets_a_free_one(trained: TrainedFolder, runs_folder: Path) -> None:
    words = [
        word for word in trained.words("x", "--steps", "1", "--quiet") if word not in ("--run", str(trained.run("x")))
    ]
    assert main(words) == DONE
    assert main(words) == DONE
    assert sorted(path.name for path in runs_folder.iterdir()) == ["cat-nano-fast-s0", "cat-nano-fast-s0-2"]


def test_a_text_shorter_than_the_context_is_refused_before_a_folder_is_made(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "short.txt").write_text("twenty characters, so", encoding="utf-8")
    said = refused("train", "--corpus", str(tmp_path / "short.txt"), "--run", str(tmp_path / "r"))
    assert "64" in said
    assert not (tmp_path / "r").exists()


def test_divergence_has_its_own_exit_code(
    trained: TrainedFolder, capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    words = ["--recipe", "nanogpt", "--steps", "60", "--training.lr", "1e9", "--training.warmup-steps", "0"]
    assert trained.train("wild", *words, "--quiet") == DIVERGED
    said = capsys.readouterr().out
    assert "diverged at step" in said
    assert Run(trained.run("wild")).status().state == "diverged"
    refused("train", "--resume", str(trained.run("wild")))


def test_a_crash_and_resume_give_the_same_run(trained: TrainedFolder, refused: Refused) -> None:
    assert trained.train("whole", "--steps", "8", "--quiet") == DONE
    dying = [sys.executable, "-m", "tests.faults.injection", "step:5", "lab.cli"]
    crashed = subprocess.run(
        [*dying, *trained.words("parts", "--steps", "8")], cwd=ROOT, capture_output=True, check=False
    )
    assert crashed.returncode == -signal.SIGKILL
    assert Run(trained.run("parts")).status().state == "stopped"
    assert main(["train", "--resume", str(trained.run("parts")), "--quiet"]) == DONE
    curves = [
        [(row["step"], row["train_loss"], row["val_loss"]) for row in Run(trained.run(name)).metrics()]
        for name in ("whole", "parts")
    ]
    assert curves[0] == curves[1]
    said = refused("train", "--resume", str(trained.run("parts")))
    assert "done" in said


def test_ctrl_c_leaves_a_run_that_can_go_on(trained: TrainedFolder) -> None:
    path = trained.run("interrupted")
    words = [sys.executable, "-m", "lab.cli", *trained.words("interrupted", "--steps", "100000")]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(Run(path).metrics()) > 3, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"residlab train --resume {path}" in out
    status = Run(path).status()
    assert status.state == "stopped"
    assert status.resumable
    assert Run(path).checkpoints()[-1] == status.step  # nothing of the training is lost


def test_the_last_line_of_a_stopped_run_names_the_step_of_its_loss_and_the_real_time(
    trained: TrainedFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained.run("between")
    seldom = "--steps 100000 --training.eval-every 100000 --training.log-every 5"
    words = [sys.executable, "-m", "lab.cli", *trained.words("between", *seldom.split())]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(Run(path).metrics()) > 2, process)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    run = Run(path)
    step = run.status().step
    losses = [row for row in run.metrics() if row["val_loss"] is not None]
    assert losses[-1]["step"] < step
    assert f"stopped at step {step} of 100000, val {losses[-1]['val_loss']:.4f} nats/token at step " in out
    seconds = json.loads((run.checkpoint_path(step) / "state.json").read_text(encoding="utf-8"))["seconds"]
    assert f", {seconds:.0f} s of training" in out
    shutil.rmtree(run.checkpoint_path(step))
    _report(run, [])
    assert "of training" not in capsys.readouterr().out  # nothing tells the time up to that step any more


def test_pause_and_stop_reach_a_run_in_another_process(trained: TrainedFolder, refused: Refused) -> None:
    path = trained.run("live")
    words = [sys.executable, "-m", "lab.cli", *trained.words("live", "--steps", "100000", "--quiet")]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(Run(path).metrics()) > 1, process)
        said = refused("train", "--resume", str(path))
        assert f"process {process.pid}" in said
        assert main(["pause", str(path)]) == DONE
        wait_until(lambda: Run(path).status().state == "paused", process)
        step = Run(path).status().step
        assert main(["train", "--resume", str(path)]) == DONE
        wait_until(lambda: Run(path).status().step > step, process)
        assert main(["stop", str(path)]) == DONE
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == DONE
    assert "stopped at step" in out
    refused("stop", str(path))


def wait_until(condition: Any, process: subprocess.Popen[str], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except OSError:
            pass  # the run's folder is not there yet
        assert process.poll() is None, "the trainer has ended"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.mark.slow
def test_two_processes_train_one_model(trained: TrainedFolder) -> None:
    path = trained.run("two")
    # The bare -- keeps torchrun from reading our --run as an abbreviation of an option of its own.
    torchrun = [sys.executable, *"-m torch.distributed.run --standalone --nproc_per_node=2 -m -- lab.cli".split()]
    words = [*torchrun, *trained.words("two", "--steps", "6")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("done at step 6 of 6") == 1  # one of the processes speaks
    one = [row["val_loss"] for row in Run(trained.run("a")).metrics() if row["val_loss"] is not None]
    two = [row["val_loss"] for row in Run(path).metrics() if row["val_loss"] is not None]
    assert two == pytest.approx(one, abs=1e-3)


# Progress


class Terminal:
    """A stream that is, or is not, a terminal, and keeps what is written."""

    def __init__(self, tty: bool):
        self.tty, self.text = tty, ""

    def isatty(self) -> bool:
        return self.tty

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_in_a_terminal_is_a_bar_with_losses_and_time_left() -> None:
    terminal: Any = Terminal(tty=True)
    with Progress(10, stream=terminal) as progress:
        progress({"step": 0, "val_loss": 4.0})
        progress({"step": 5, "train_loss": 2.5, "val_loss": None})
        progress({"step": 10, "train_loss": 2.25, "val_loss": 2.125})
    assert "10/10" in terminal.text
    assert "val 2.1250" in terminal.text
    assert "train 2.2500" in terminal.text
    assert "left" in terminal.text


def test_progress_elsewhere_is_a_line_for_each_evaluation() -> None:
    stream: Any = Terminal(tty=False)
    with Progress(1000, stream=stream) as progress:
        progress({"step": 0, "val_loss": 4.0})
        for step in range(1, 500):
            progress({"step": step, "train_loss": 3.0, "val_loss": None})
        progress({"step": 500, "train_loss": 2.0, "val_loss": 2.5})
    lines = stream.text.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("step 500/1000  val 2.5000  train 2.0000")
    assert lines[1].endswith("left")


@pytest.mark.parametrize("tty", [True, False])
def test_progress_says_of_which_step_an_earlier_validation_loss_is(tty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.commands.progress.LINE_SECONDS", 0.0)
    stream: Any = Terminal(tty=tty)
    with Progress(10, stream=stream) as progress:
        progress({"step": 0, "val_loss": 4.0})
        progress({"step": 5, "train_loss": 2.5, "val_loss": None})
    assert "val 4.0000 (step 0)  train 2.5000" in stream.text
    stream = Terminal(tty=tty)
    with Progress(10, stream=stream) as progress:
        progress({"step": 10, "train_loss": 2.25, "val_loss": 2.125})
    assert "(step" not in stream.text


def test_quiet_progress_says_nothing() -> None:
    stream: Any = Terminal(tty=True)
    with Progress(10, quiet=True, stream=stream) as progress:
        progress({"step": 10, "val_loss": 1.0})
    assert stream.text == ""
