"""Kill a training run with SIGKILL, wherever it hurts, and take it up again: nothing differs from one never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lab.runs import ENDED_SILENTLY, Run, read_lines, resume_training
from lab.training import RunConfig, build_run_config, resume, train
from lab.training.run import execute
from tests.faults.injection import install

ROOT = Path(__file__).parents[2]
TIMES = ("seconds", "wall_seconds")
STEPS = 20


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    words = np.random.default_rng(0).choice(["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog"], 1000)
    path.write_text(" ".join(words))
    return path


def config(text: Path, recipe: str, steps: int = STEPS, **training: Any) -> RunConfig:
    """Dropout everywhere; lines of metrics that average over steps on both sides of a checkpoint."""
    schedule = dict(batch_size=4, log_every=3, eval_every=5, checkpoint_every=7, sample_every=5, sample_tokens=6)
    dropout = dict(embed_dropout=0.1, attn_dropout=0.2, resid_dropout=0.3)
    return build_run_config(
        str(text),
        "nano",
        recipe,
        steps=steps,
        model_overrides=dict(n_ctx=8, d_model=16, n_layers=2, n_heads=2, **dropout),
        training_overrides={**schedule, "device": "cpu", **training},
    )


@pytest.fixture(scope="module", params=["nanogpt", "fast"])
def whole(request: pytest.FixtureRequest, text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run]:
    """A run that nobody killed."""
    path = tmp_path_factory.mktemp("whole") / request.param
    return request.param, train(config(text, request.param), run=path)


def trainer(run: Run) -> subprocess.Popen[bytes]:
    """A trainer as a process of its own, as the command line and the app start it."""
    command = [sys.executable, "-m", "lab.training", str(run.path)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def train_until_killed(run: Run, fault: str) -> None:
    """Train in a child process that dies of SIGKILL at the fault.

    A fork, not a new interpreter: importing torch a dozen times would take longer than all the training.
    """
    child = os.fork()
    if child == 0:
        try:
            install(fault)
            execute(run)
        finally:
            os._exit(99)  # not reached: the fault kills
    _, ending = os.waitpid(child, 0)
    assert os.WIFSIGNALED(ending) and os.WTERMSIG(ending) == signal.SIGKILL


def wait_for(condition: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def assert_same(run: Run, other: Run) -> None:
    """Equal to the bit: lines, samples, dynamics, and the weights and moments of every checkpoint."""
    assert run.status().state == other.status().state == "done"
    assert without_times(run.metrics()) == without_times(other.metrics())
    assert run.samples() == other.samples()
    assert run.dynamics() == other.dynamics()
    assert run.best() == other.best()
    assert run.checkpoints() == other.checkpoints()
    for step in run.checkpoints():
        for name in ("model", "optimizer"):
            a, b = (r.checkpoint_path(step) / f"{name}.safetensors" for r in (run, other))
            assert a.exists() == b.exists()
            if a.exists():
                left, right = load_file(a), load_file(b)
                assert left.keys() == right.keys()
                for key in left:
                    assert torch.equal(left[key], right[key]), f"{key} of step {step}"


# 20 steps against 7 (and a few more, lost) + kill + the rest
@pytest.mark.parametrize(
    ("fault", "newest"),
    [
        ("step:1", 0),
        ("step:7", 5),  # trained, nothing of it written
        ("checkpoint:7", 5),  # inside the write of a checkpoint
        ("step:8", 7),
        ("line:9", 8),  # half a line of metrics
        ("step:13", 10),  # in the middle of a line's average
    ],
)
def test_killed_and_resumed_equals_never_killed(
    whole: tuple[str, Run], text: Path, tmp_path: Path, fault: str, newest: int
) -> None:
    recipe, reference = whole
    run = Run(tmp_path / "a").create(config(text, recipe).to_dict())
    train_until_killed(run, fault)
    status = run.status()
    assert (status.state, status.error, status.resumable) == ("stopped", ENDED_SILENTLY, True)
    assert run.checkpoints()[-1] == newest
    resume(run)
    assert_same(run, reference)
    assert [e["event"] for e in run.events() if e["event"] != "checkpoint"] == ["start", "resume", "done"]
    assert not [entry.name for entry in (run.path / "checkpoints").iterdir() if entry.name.startswith(".")]
    seconds = [row["seconds"] for row in run.metrics()]
    assert seconds == sorted(seconds), "time accumulates over the break"


def test_killed_before_its_first_checkpoint_begins_again(whole: tuple[str, Run], text: Path, tmp_path: Path) -> None:
    recipe, reference = whole
    run = Run(tmp_path / "a").create(config(text, recipe).to_dict())
    train_until_killed(run, "checkpoint:0")
    assert run.checkpoints() == [] and len(run.metrics()) == 1
    resume(run)
    assert_same(run, reference)


def test_killed_twice(text: Path, tmp_path: Path) -> None:
    reference = train(config(text, "fast"), run=tmp_path / "whole")
    run = Run(tmp_path / "a").create(config(text, "fast").to_dict())
    for fault in ("step:6", "line:12"):
        train_until_killed(run, fault)
    resume(run)
    assert_same(run, reference)


def test_killed_from_outside_at_no_chosen_moment(text: Path, tmp_path: Path) -> None:
    """A parent that kills its trainer, and the detached one that takes over, as the app and the shell do."""
    cfg = config(text, "nanogpt", steps=300, log_every=1, eval_every=100, checkpoint_every=50)
    reference = train(cfg, run=tmp_path / "whole")
    run = Run(tmp_path / "a").create(cfg.to_dict())
    child = trainer(run)
    wait_for(lambda: len(read_lines(run.path / "metrics.jsonl")) > 60)
    child.kill()
    assert child.wait(60) == -signal.SIGKILL
    killed_at = run.metrics()[-1]["step"]
    assert 0 < killed_at < 300
    resume_training(run)
    wait_for(lambda: not run.status().active)
    assert_same(run, reference)


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    whole: tuple[str, Run], text: Path, tmp_path: Path
) -> None:
    recipe, reference = whole
    run = Run(tmp_path / "a").create(config(text, recipe).to_dict())
    train_until_killed(run, "step:9")
    file = run.checkpoint_path(8) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    resume(run)
    assert_same(run, reference)
    event = next(e for e in run.events() if e["event"] == "resume")
    assert event["step"] == 7 and "model.safetensors" in event["damaged"][0]


def test_a_run_without_a_readable_checkpoint_is_not_begun_again_in_silence(text: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "a").create(config(text, "fast").to_dict())
    train_until_killed(run, "step:9")
    for step in run.checkpoints():
        (run.checkpoint_path(step) / "model.safetensors").write_bytes(b"nonsense")
    lines = run.metrics()
    with pytest.raises(ValueError, match=r"no checkpoint of .* can be read"):
        resume(run)
    assert run.metrics() == lines and run.status().state == "failed"


def test_sigterm_saves_where_it_is(text: Path, tmp_path: Path) -> None:
    cfg = config(
        text, "nanogpt", steps=5000, log_every=1, eval_every=1000, checkpoint_every=1000, checkpoint_early=False
    )
    run = Run(tmp_path / "a").create(cfg.to_dict())
    child = trainer(run)
    wait_for(lambda: len(read_lines(run.path / "metrics.jsonl")) > 20)
    child.terminate()
    assert child.wait(60) == 0
    status = run.status()
    assert status.state == "stopped" and run.checkpoints()[-1] == status.step == run.metrics()[-1]["step"]
