"""A new run from weights that are there: the same numbers at step 0, then a training like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lab.models import open_model
from lab.runs import Run
from lab.training import build_run_config, train
from lab.training.footprint import plan, require_memory
from lab.training.run import resume

TEXT = "the cat sat on the mat. lily gave the ball to tom. " * 120
SHAPE = {"n_layers": 1, "d_model": 16, "n_heads": 2, "n_ctx": 16}
QUICK = {"batch_size": 4, "eval_every": 5, "checkpoint_every": 5, "sample_every": 0, "dynamics": False,
         "precision": "fp32"}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("source")
    (home / "text.txt").write_text(TEXT)
    config = build_run_config(str(home / "text.txt"), steps=10, model_overrides=SHAPE, training_overrides=QUICK)
    return train(config, run=home / "runs" / "first")


def config_of(source: Run, reference: str, *, steps: int = 10, **model: object):
    corpus = source.config["data"]["corpus"]
    return build_run_config(
        corpus, steps=steps, model_overrides={**SHAPE, **model}, training_overrides={**QUICK, "from_weights": reference}
    )


@pytest.mark.parametrize("step", [None, 0, 4, 10])
def test_step_0_has_the_sources_weights_and_loss(source: Run, tmp_path: Path, step: int | None) -> None:
    reference = f"{source.path}" + ("" if step is None else f"@{step}")
    run = train(config_of(source, reference), run=tmp_path / "second")
    theirs, ours = open_model(reference), open_model(f"{run.path}@0")
    for name, parameter in theirs.named_parameters():
        assert torch.equal(parameter, dict(ours.named_parameters())[name]), name
    known = {row["step"]: row["val_loss"] for row in source.metrics() if row["val_loss"] is not None}
    if (10 if step is None else step) in known:
        assert run.metrics()[0]["val_loss"] == known[10 if step is None else step]
    (event,) = [event for event in run.events() if event["event"] == "weights"]
    assert event["of"] == reference and len(event["sha256"]) == 64
    assert run.status().state == "done" and run.config["training"]["from_weights"] == reference


def test_taken_up_again_it_is_what_it_would_have_been(source: Run, tmp_path: Path) -> None:
    whole = train(config_of(source, str(source.path), steps=12), run=tmp_path / "whole")
    run = Run(tmp_path / "cut")

    def stop(row: object) -> None:
        if dict(row)["step"] == 5:  # type: ignore[call-overload]
            run.request_stop()

    train(config_of(source, str(source.path), steps=12), run=run, on_step=stop)
    assert run.status().state == "stopped"
    resume(run)
    for name, parameter in open_model(whole.path).named_parameters():
        assert torch.equal(parameter, dict(open_model(run.path).named_parameters())[name]), name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_layers": 2}, "n_layers 2 against 1"),
        ({"d_model": 32, "act_fn": "relu"}, "act_fn 'relu'"),
        ({"norm_placement": "post"}, "norm_placement"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
    ],
)
def test_another_model_is_refused_by_its_fields(source: Run, tmp_path: Path, change: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        train(config_of(source, str(source.path), **change), run=tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_dropout_and_seed_may_be_others(source: Run, tmp_path: Path) -> None:
    run = train(config_of(source, str(source.path), resid_dropout=0.1, seed=7), run=tmp_path / "second")
    assert run.status().state == "done"


@pytest.mark.parametrize("reference", ["nowhere", "runs/none@3", "   ", ""])
def test_weights_that_are_not_there_are_refused(source: Run, tmp_path: Path, reference: str) -> None:
    with pytest.raises((ValueError, OSError)):
        train(config_of(source, reference), run=tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_the_command_takes_the_model_from_the_weights(
    source: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.cli import main

    monkeypatch.chdir(source.path.parent)
    run = tmp_path / "second"
    words = ["train", "--corpus", source.config["data"]["corpus"], "--steps", "4", "--from-weights", "first@4", "--run",
             str(run), "--training.batch-size", "4"]  # fmt: skip
    assert main(words) == 0
    said = capsys.readouterr()
    assert "1 layer" not in said.err and "parameters, 4 steps" in said.err and "of memory" in said.err
    assert Run(run).config["model"]["d_model"] == 16
    assert Run(run).config["training"]["from_weights"] == f"{source.path}@4"
    assert main([*words[:-4], "--run", str(tmp_path / "third"), "--model.n-layers", "2"]) == 2
    assert "n_layers 2 against 1" in capsys.readouterr().err


def test_the_plan_names_what_it_takes_and_too_much_is_refused() -> None:
    config = build_run_config("stories", "gpt2-small", "textbook", steps=1000)
    said = plan(config)
    assert "1,000 steps" in said and "memory" in said and "M" in said
    with pytest.raises(ValueError, match="this machine has"):
        require_memory(config.replace(training=config.training.replace(device="cpu")), total=10**9)


def test_a_kill_between_the_last_event_and_the_status_does_not_end_a_run_twice(source: Run, tmp_path: Path) -> None:
    run = train(config_of(source, str(source.path), steps=5), run=tmp_path / "second")
    run.write_status("running", 5, 5)  # as it stood when the process was killed
    run.write_status("stopped", 5, 5)
    resume(run)
    assert [event["event"] for event in run.events()].count("done") == 1 and run.status().state == "done"
