"""A run whose checkpoints cannot be resumed: it says so, names what is missing, and loses nothing that is on disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lab import Run, open_model
from lab.cli import main
from lab.models import ModelFileError
from lab.runs import RunNotFoundError, keep_lines, queue, require_resumable, resume_training, write_json
from lab.runs.checkpoints import STATE_VALUES, step_folders
from lab.training import RunConfig, build_run_config, resume, train
from lab.training.restore import SET_BACK

TINY: dict[str, Any] = dict(n_ctx=8, d_model=16, n_layers=2, n_heads=2)
Damage = Callable[[Run], object]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    words = np.random.default_rng(0).choice(["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog"], 1000)
    path.write_text(" ".join(words))
    return path


def config(text: Path, steps: int = 12, **training: Any) -> RunConfig:
    schedule = dict(batch_size=4, log_every=1, eval_every=5, checkpoint_every=4, sample_every=5, sample_tokens=4)
    return build_run_config(
        str(text), "nano", "fast", steps=steps, model_overrides=TINY,
        training_overrides={**schedule, "device": "cpu", **training},
    )  # fmt: skip


@pytest.fixture(scope="module")
def stopped_run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was stopped at step 9 of 12, with checkpoints at 0, 1, 2, 4, 8 and 9."""
    path = tmp_path_factory.mktemp("stopped") / "a"
    run = Run(path)

    def stop(row: Any) -> None:
        if row["step"] == 9:
            run.request_stop()

    train(config(text), run=path, on_step=stop)
    assert run.status().state == "stopped" and run.checkpoints() == [0, 1, 2, 4, 5, 8, 9]
    return run


@pytest.fixture
def stopped(stopped_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    root = tmp_path / "runs"
    shutil.copytree(stopped_run.path, root / "a")
    monkeypatch.setenv("RESIDLAB_RUNS", str(root))
    return Run(root / "a")


def files_of(run: Run) -> dict[str, str]:
    """What is on disk, without what says how the process went (status, events, lock) and what was asked of it."""
    return {
        str(path.relative_to(run.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.path.rglob("*"))
        if path.is_file() and path.name not in ("status.json", "events.jsonl", "lock", "stop")
    }


def each(name: str, change: Callable[[Path], object]) -> Damage:
    """The same change to a file of every checkpoint that has it."""

    def damage(run: Run) -> None:
        for folder in step_folders(run).values():
            if (folder / name).exists():
                change(folder / name)

    return damage


def edited(**values: Any) -> Callable[[Path], object]:
    """state.json with other values, and without the sha256 of itself, which would tell first."""

    def change(path: Path) -> None:
        state = {**json.loads(path.read_text()), **values}
        state.pop("state_sha256")
        path.write_text(json.dumps({k: v for k, v in state.items() if v != "drop"}))

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def tensors(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Damage:
    """Other tensors in a file, with no sha256 noted beside it, as of a run of before there was one."""

    def apply(path: Path) -> None:
        save_file(change(load_file(path)), path, metadata={"format": "pt"})
        state = path.with_name("state.json")
        values = json.loads(state.read_text())
        state.write_text(json.dumps({k: v for k, v in values.items() if k not in ("sha256", "state_sha256")}))

    def of_old_run(run: Run) -> None:
        each(name, apply)(run)

    return of_old_run


def as_type(dtype: torch.dtype) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda held: {name: value.to(dtype) for name, value in held.items()}


def without_newest(run: Run) -> None:
    for step in (9, 8):
        shutil.rmtree(run.checkpoint_path(step))


def other_shape(run: Run) -> None:
    values = run.config
    values["model"]["d_mlp"] = 32
    write_json(run.path / "config.json", values)
    each(STATE, edited(settings="drop"))(run)  # as of a run of before they were noted


OPTIMIZER, WEIGHTS, STATE = "optimizer.safetensors", "model.safetensors", "state.json"
DAMAGES: dict[str, tuple[Damage, str]] = {
    "no optimizer files": (each(OPTIMIZER, Path.unlink), "lacks optimizer.safetensors"),
    "newest deleted": (without_newest, "step_000005 lacks optimizer.safetensors"),
    "no weights": (each(WEIGHTS, Path.unlink), "lacks model.safetensors"),
    "no state": (each(STATE, Path.unlink), "lacks state.json"),
    "no tensors": (
        lambda run: (each(WEIGHTS, Path.unlink)(run), each(OPTIMIZER, Path.unlink)(run)),
        "model.safetensors and optimizer.safetensors",
    ),
    "no checkpoints": (lambda run: shutil.rmtree(run.path / "checkpoints"), "none left"),
    "neither checkpoints nor lines": (
        lambda run: [shutil.rmtree(run.path / "checkpoints"), *map(Path.unlink, run.path.glob("*.jsonl"))], "none left",
    ),
    "checkpoints emptied": (
        lambda run: [shutil.rmtree(folder) for folder in step_folders(run).values()], "none left",
    ),
    "state cut": (each(STATE, cut), "not valid JSON"),
    "state emptied": (each(STATE, lambda path: path.write_text("")), "not valid JSON"),
    "state nested": (each(STATE, lambda path: path.write_text("[" * 200_000)), "nested too deeply"),
    "state a list": (each(STATE, lambda path: path.write_text("[]")), "should hold a JSON object"),
    "state of digits": (each(STATE, lambda path: path.write_text('{"step": ' + "9" * 5000 + "}")), "state.json"),
    "state changed": (each(STATE, lambda p: p.write_text(p.read_text().replace('"clipped": 0', '"clipped": 1'))),
                      "was changed after it was written"),
    "schema of tomorrow": (each(STATE, edited(schema_version=2)), "schema_version 2"),
    **{
        f"{name} beyond a float": (each(STATE, edited(**{name: value})), f"{name} is ")
        for name in STATE_VALUES
        for value in ([[10**400]] if name == "losses" else [10**400])
    },
    "no schema": (each(STATE, edited(schema_version="drop")), "schema_version None"),
    "step 1e308": (each(STATE, edited(step=1e308)), "step is 1e+308; it must be a whole number"),
    "step a text": (each(STATE, edited(step="9")), "step is '9'"),
    "step of another": (each(STATE, edited(step=3)), "is of step 3, in the folder of step"),
    "tokens missing": (each(STATE, edited(tokens="drop")), "lacks 'tokens'"),
    "losses a number": (each(STATE, edited(losses=1.0)), "losses is 1.0; it must be a list"),
    "losses of text": (each(STATE, edited(losses=["a"])), "losses is"),
    "seconds null": (each(STATE, edited(seconds=None)), "seconds is None"),
    "best_step negative": (each(STATE, edited(best_step=-1)), "best_step is -1"),
    "weights cut": (each(WEIGHTS, cut), "model.safetensors is damaged"),
    "weights flipped": (each(WEIGHTS, flipped), "model.safetensors is damaged"),
    "weights nonsense": (each(WEIGHTS, lambda path: path.write_bytes(b"x" * 99)), "model.safetensors is damaged"),
    "weights half": (tensors(WEIGHTS, as_type(torch.float16)), "is torch.float16"),
    "weights int64": (tensors(WEIGHTS, as_type(torch.int64)), "is torch.int64"),
    "optimizer cut": (each(OPTIMIZER, cut), "optimizer.safetensors is damaged"),
    "optimizer flipped": (each(OPTIMIZER, flipped), "optimizer.safetensors is damaged"),
    "optimizer half": (tensors(OPTIMIZER, as_type(torch.float16)), "is torch.float16"),
    "optimizer double": (tensors(OPTIMIZER, as_type(torch.float64)), "is torch.float64"),
    "optimizer int64": (tensors(OPTIMIZER, as_type(torch.int64)), "is torch.int64"),
    "optimizer emptied": (tensors(OPTIMIZER, lambda held: {}), "is missing"),
    "optimizer for some": (tensors(OPTIMIZER, lambda held: dict(list(held.items())[1:])), "is missing (1 in all)"),
    "optimizer reshaped": (tensors(OPTIMIZER, lambda h: {n: v[..., None] for n, v in h.items()}), "has shape"),
    "another shape": (other_shape, "shape"),
    "weights a folder": (each(WEIGHTS, lambda p: (p.unlink(), p.mkdir())), "lacks model.safetensors"),
    "weights a pipe": (each(WEIGHTS, lambda p: (p.unlink(), os.mkfifo(p))), "lacks model.safetensors"),
    "state a pipe": (each(STATE, lambda p: (p.unlink(), os.mkfifo(p))), "lacks state.json"),
    "optimizer a pipe": (each(OPTIMIZER, lambda p: (p.unlink(), os.mkfifo(p))), "lacks optimizer.safetensors"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_run_that_has_begun_is_never_begun_again(stopped: Run, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    damage, said = DAMAGES[kind]
    damage(stopped)
    before = files_of(stopped)
    assert main(["train", "--resume", str(stopped.path), "--quiet"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"no checkpoint of {stopped.path} can be read" in told and said in told, told
    assert files_of(stopped) == before
    assert stopped.status().step == 9 and stopped.status().state in ("stopped", "failed")


SEEN_WHEN_LOADED = {"another shape", *(kind for kind in DAMAGES if DAMAGES[kind][0].__name__ == "of_old_run")}


@pytest.mark.parametrize("waits", [False, True], ids=["now", "in the queue"])
@pytest.mark.parametrize("kind", [kind for kind in DAMAGES if kind not in SEEN_WHEN_LOADED])
def test_the_resume_button_is_told_the_same_before_a_process_is_started(stopped: Run, kind: str, waits: bool) -> None:
    damage, said = DAMAGES[kind]
    damage(stopped)
    before = files_of(stopped)
    with pytest.raises(ValueError, match=re.escape(f"no checkpoint of {stopped.path} can be read")) as refused:
        queue.enqueue(stopped) if waits else resume_training(stopped)
    assert said in str(refused.value)
    assert files_of(stopped) == before and stopped.status().state == "stopped" and not queue.waiting_runs()


@pytest.mark.parametrize(
    "kind, possible", [("no optimizer files", True), ("state cut", True), ("no tensors", False), ("weights cut", False)]
)
def test_the_refusal_says_what_can_still_be_done(
    stopped: Run, kind: str, possible: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[kind][0](stopped)
    with pytest.raises(ValueError, match="Nothing was changed") as refused:
        resume(stopped)
    assert (f"residlab sample {stopped.path}@9" in str(refused.value)) == possible
    if possible:
        assert main(["sample", f"{stopped.path}@9", "--prompt", "the", "--tokens", "3"]) == 0


def test_a_checkpoint_that_a_resume_passes_over_stays_until_it_is_passed_again(stopped: Run, text: Path) -> None:
    """Stopped again at step 8, before the damaged checkpoint of step 9 has its successor."""
    flipped(stopped.checkpoint_path(9) / WEIGHTS)
    before = files_of(stopped)
    lines = stopped.metrics()
    stopped.request_stop()
    with pytest.warns(UserWarning, match="goes on from step 8: .*step_000009.model.safetensors is damaged"):
        from lab.training.run import execute

        assert execute(stopped) == "stopped"
    after = files_of(stopped)
    assert {name: digest for name, digest in before.items() if "checkpoints" in name} == {
        name: digest for name, digest in after.items() if "checkpoints" in name
    }
    assert stopped.metrics() == lines[:-1]
    kept = [json.loads(line) for line in (stopped.path / SET_BACK).read_text().splitlines()]
    assert {"file": "metrics", "line": lines[-1]} in kept

    with pytest.warns(UserWarning, match="goes on from step 8"):
        resume(stopped)
    whole = train(config(text), run=stopped.path.parent / "whole")
    assert not (stopped.path / SET_BACK).exists() and stopped.checkpoints() == whole.checkpoints()
    assert [row["train_loss"] for row in stopped.metrics()] == [row["train_loss"] for row in whole.metrics()]
    for step in whole.checkpoints():
        for name in (WEIGHTS, OPTIMIZER):
            ours, theirs = (run.checkpoint_path(step) / name for run in (stopped, whole))
            assert ours.exists() == theirs.exists() and (not ours.exists() or ours.read_bytes() == theirs.read_bytes())


def test_a_run_that_made_no_step_begins_again(text: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "a").create(config(text).to_dict())
    run.write_status("stopped", 0, 12, process=None)
    assert resume(run).status().state == "done"


@pytest.mark.parametrize("name", ["step_9", "step_0000009", "step_\u0660\u0660\u0660\u0660\u0660\u0669"])
def test_a_copy_beside_a_checkpoint_does_not_hide_it(stopped: Run, name: str) -> None:
    shutil.copytree(stopped.checkpoint_path(9), stopped.path / "checkpoints" / name)
    require_resumable(stopped)
    resume(stopped)
    assert next(e["step"] for e in stopped.events() if e["event"] == "resume") == 9


@pytest.mark.parametrize(
    "part, name, value",
    [
        ("training", "lr", 0.5),
        ("training", "data_seed", 7),
        ("training", "seed", 7),
        ("training", "batch_size", 8),
        ("training", "optimizer", "adamw"),
        ("training", "betas", [0.5, 0.6]),
        ("training", "grad_clip", 0.5),
        ("training", "warmup_steps", 9),
        ("training", "schedule", "constant"),
        ("training", "precision", "bf16"),
        ("model", "act_fn", "relu"),
        ("model", "attn_dropout", 0.5),
        ("model", "seed", 7),
    ],
)
def test_another_training_is_not_gone_on_with(stopped: Run, part: str, name: str, value: Any) -> None:
    values = stopped.config
    old = values[part][name]
    assert old != value
    values[part][name] = value
    write_json(stopped.path / "config.json", values)
    before = files_of(stopped)
    with pytest.raises(ValueError, match=re.escape(f"{part}.{name} is {value!r}, and was {old!r}")):
        resume(stopped)
    assert files_of(stopped) == before


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "of before they were noted"])
def test_what_does_not_touch_the_weights_may_change(stopped: Run, noted: bool) -> None:
    values = stopped.config
    free = {"log_every": 2, "eval_every": 6, "eval_tokens": 64, "checkpoint_every": 6, "sample_every": 0,
            "sample_tokens": 2, "sample_prompt": "fox", "optimizer_history": 1, "dynamics": False,
            "steps": 13}  # fmt: skip
    values["training"].update(free)
    if not noted:
        each(STATE, edited(settings="drop"))(stopped)
        values["training"]["lr"] = 0.5
    write_json(stopped.path / "config.json", values)
    assert resume(stopped).status().step == 13


def test_without_optimizer_history_nothing_is_kept_and_resume_says_so(text: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "a")
    cfg = config(text, optimizer_history=0)
    train(cfg, run=run, on_step=lambda row: run.request_stop() if row["step"] == 3 else None)
    assert run.status().state == "stopped" and not list(run.path.rglob(OPTIMIZER))
    before = files_of(run)
    with pytest.raises(ValueError, match=r"optimizer_history 0 none keeps the optimizer's state.*residlab sample"):
        resume(run)
    assert files_of(run) == before


# --- a kill between a checkpoint and what follows from it ----------------------------------------------------


def test_what_follows_from_the_last_checkpoint_is_made_up_for(text: Path, tmp_path: Path) -> None:
    """Killed after the last checkpoint had its name, before best.json, its event, and the thinning out."""
    whole = train(config(text, checkpoint_early=False), run=tmp_path / "whole")
    run = Run(tmp_path / "a")
    shutil.copytree(whole.path, run.path)
    best = whole.best()
    assert best is not None
    write_json(run.path / "best.json", {"step": 0, "val_loss": 9.0})
    extra = run.path / "checkpoints" / "step_000003"  # what was best before, and is not scheduled
    shutil.copytree(run.checkpoint_path(4), extra)
    keep_lines(
        run.path / "events.jsonl", lambda e: e["event"] != "done" and (e["event"], e["step"]) != ("checkpoint", 12)
    )
    run.write_status("running", 11, 12, process={"pid": 2**22 + 1, "process": "gone", "host": None})
    resume(run)
    assert run.best() == best and run.checkpoints() == whole.checkpoints() and not extra.exists()
    assert [e["step"] for e in run.events() if e["event"] == "checkpoint"].count(12) == 1
    assert run.events()[-1]["event"] == "done" and run.status().state == "done"
    states = [folder for folder in step_folders(run).values() if (folder / OPTIMIZER).exists()]
    assert len(states) == 2


def test_a_whole_checkpoint_that_has_no_name_yet_gets_it(stopped: Run) -> None:
    folder = stopped.checkpoint_path(9)
    folder.rename(folder.with_name(".step_000009.77.tmp"))
    cut_off = folder.with_name(".step_000010.77.tmp")
    shutil.copytree(stopped.checkpoint_path(8), cut_off)
    resume(stopped)
    assert next(e["step"] for e in stopped.events() if e["event"] == "resume") == 9
    assert not cut_off.exists() and not list((stopped.path / "checkpoints").glob(".*"))


def test_a_last_event_that_was_cut_short_does_not_swallow_the_next(stopped: Run) -> None:
    with (stopped.path / "events.jsonl").open("a") as file:
        file.write('{"event": "chec')
    resume(stopped)
    assert "resume" in [event["event"] for event in stopped.events()]


# --- what a checkpoint was written with ----------------------------------------------------------------------


@pytest.mark.parametrize("at", [-5, -200])
def test_one_turned_bit_is_found_by_whoever_opens_the_weights(
    stopped: Run, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stopped.checkpoint_path(9) / WEIGHTS
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    for spec in (stopped.path, f"{stopped.path}@9", path.parent):
        with pytest.raises(ModelFileError, match=re.escape(f"{path} is damaged or was replaced")):
            open_model(spec)
    assert main(["sample", str(stopped.path), "--prompt", "the"]) == 2
    assert str(path) in capsys.readouterr().err
    open_model(f"{stopped.path}@8")


def test_equal_weights_are_equal_in_bytes(text: Path, tmp_path: Path) -> None:
    one, other = (train(config(text, steps=2), run=tmp_path / name) for name in "ab")
    for name in (WEIGHTS, OPTIMIZER):
        files = [run.checkpoint_path(2) / name for run in (one, other)]
        assert files[0].read_bytes() == files[1].read_bytes()
    size = struct.unpack("<Q", files[0].read_bytes()[:8])[0]
    assert size % 8 == 0


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl", "tokenizer.json", "lock"])
def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(
    stopped: Run, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stopped.path / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    spec = str(stopped.path)
    resumes = name.endswith(("jsonl", "lock"))
    assert main(["train", "--resume", spec, "--quiet"] if resumes else ["sample", spec, "--prompt", "the"]) == 2
    assert f"{path} is a named pipe" in capsys.readouterr().err


def test_weights_in_a_pipe_are_not_waited_for(stopped: Run) -> None:
    path = stopped.checkpoint_path(9) / WEIGHTS
    path.unlink()
    os.mkfifo(path)
    with pytest.raises((OSError, ModelFileError), match=r"holds neither a run .* nor weights"):
        open_model(path.parent)
    with pytest.raises(RunNotFoundError):
        open_model(f"{stopped.path}@9")


def test_a_second_trainer_of_a_run_is_told_in_a_sentence(stopped: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with stopped.lock():
        assert main(["train", "--resume", str(stopped.path), "--quiet"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "is being trained by another process" in told
    require_resumable(stopped)


def test_a_run_that_was_queued_before_the_clock_was_set_back_is_not_alive(
    stopped: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.runs import status

    stopped.write_status("queued", 9, 12, process=None)
    assert stopped.status().active
    now = status.time.time()
    for shift in (-86_400, 86_400):
        monkeypatch.setattr(status.time, "time", lambda shift=shift: now + shift)
        assert not stopped.status().active and stopped.status().resumable
