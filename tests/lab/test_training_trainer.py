"""The training loop: what it writes, when it stops, and what it never disturbs."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lab import Run, open_model
from lab.runs import RunBusyError, RunExistsError, start_training
from lab.training import RunConfig, build_run_config, prepare_data, resume, train, trainer
from lab.training.checkpoint import is_scheduled
from lab.training.data import Batches
from lab.training.dynamics import SCORES, measure_dynamics
from lab.training.evaluation import evaluate
from lab.training.optimizers import Optimizers
from lab.training.run import execute
from lab.training.schedule import lr_multiplier
from model import GPT, GPTConfig

TINY: dict[str, Any] = dict(n_ctx=8, d_model=16, n_layers=2, n_heads=2)
LINE_KEYS = {
    "step", "tokens", "seconds", "wall_seconds", "train_loss", "val_loss", "val_bpb", "lr", "grad_norm", "clipped"
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    words = np.random.default_rng(0).choice(["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog"], 1000)
    path.write_text(" ".join(words))
    return path


def config(text: Path, steps: int = 12, recipe: str = "nanogpt", model: Any = (), **training: Any) -> RunConfig:
    defaults = dict(batch_size=4, log_every=2, eval_every=6, checkpoint_every=6, sample_every=6, sample_tokens=8)
    return build_run_config(
        str(text),
        "nano",
        recipe,
        steps=steps,
        model_overrides={**TINY, **dict(model)},
        training_overrides={**defaults, **training},
    )


# --- a run from end to end -----------------------------------------------------------------------------------


def test_a_run_leaves_everything_the_design_names(text: Path, tmp_path: Path) -> None:
    rows: list[Any] = []
    run = train(config(text), run=tmp_path / "a", on_step=rows.append)
    status = run.status()
    assert (status.state, status.step, status.max_steps, status.error) == ("done", 12, 12, None)

    metrics = run.metrics()
    assert [row["step"] for row in metrics] == [0, 2, 4, 6, 8, 10, 12] and rows == metrics
    assert all(row.keys() >= LINE_KEYS for row in metrics)
    assert [row["step"] for row in metrics if row["val_loss"] is not None] == [0, 6, 12]
    assert [row["tokens"] for row in metrics] == [step * 4 * 8 for step in range(0, 13, 2)]
    seconds = [row["seconds"] for row in metrics]
    assert seconds == sorted(seconds) and all(row["seconds"] <= row["wall_seconds"] for row in metrics)
    assert metrics[0]["train_loss"] is None and metrics[0]["lr"] > 0
    assert metrics[-1]["lr"] == pytest.approx(1e-4, rel=1e-12), "nanoGPT's recipe ends at a tenth of its peak"
    assert metrics[-1]["val_loss"] < metrics[0]["val_loss"]
    assert metrics[0]["val_loss"] == pytest.approx(math.log(run.tokenizer().vocab_size), abs=0.1)

    assert run.checkpoints() == [0, 1, 2, 4, 6, 8, 12]
    assert run.best() == {"step": 12, "val_loss": metrics[-1]["val_loss"]}
    folder = run.checkpoint_path(12)
    assert sorted(p.name for p in folder.iterdir()) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    samples = run.samples()
    assert [row["step"] for row in samples] == [0, 6, 12] and all(len(row["text"]) == 8 for row in samples)
    assert [event["event"] for event in run.events()] == ["start", *["checkpoint"] * 7, "done"]

    resolved = RunConfig.from_dict(run.config)
    assert resolved.model.d_vocab == run.tokenizer().vocab_size
    assert resolved.training.precision in ("fp32", "bf16") and resolved.training.device in ("cpu", "cuda")
    assert resolved.data.corpus == str(text.resolve())
    provenance = run.provenance
    assert provenance["tokenizer"]["sha256"] == run.tokenizer().sha256
    assert provenance["corpus"]["sha256"] == prepare_data(resolved).corpus.sha256
    assert provenance["packages"]["torch"] == torch.__version__.split("+")[0] or provenance["packages"]["torch"]
    assert {"argv", "git", "hardware", "threads", "time"} <= provenance.keys()

    model = open_model(run.path)
    assert model.tokenizer == run.tokenizer() and not model.training
    assert isinstance(model.generate("the quick", max_new_tokens=5, seed=0), str)


def test_dynamics_have_a_number_for_each_layer_and_head(text: Path, tmp_path: Path) -> None:
    run = train(config(text, steps=4), run=tmp_path / "a")
    records = run.dynamics()
    assert [row["step"] for row in records] == [0, 1, 2, 4]
    for row in records:
        for name in ("residual_rms", "grad_norm", "attn_rms", "mlp_rms"):
            assert len(row[name]) == 2 and all(value > 0 for value in row[name]), name
        for name in SCORES:
            assert np.array(row[name], dtype=float).shape == (2, 2), name


def test_dynamics_measure_the_gradients_of_the_next_batch_and_leave_no_trace() -> None:
    model = GPT(GPTConfig(d_vocab=11, resid_dropout=0.3, **TINY)).train()
    windows = np.random.default_rng(0).integers(0, 11, (4, 9))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    record = measure_dynamics(model, windows, windows[0, :8])
    assert torch.equal(torch.get_rng_state(), before) and model.training
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in model.parameters())  # type: ignore[arg-type]
    model.zero_grad()
    model.eval()
    tokens = torch.from_numpy(windows)
    model(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:]).backward()
    for layer in range(2):
        squares = sum(float(p.grad.square().sum()) for p in model.blocks[layer].parameters())  # type: ignore[union-attr]
        assert record["grad_norm"][layer] == pytest.approx(math.sqrt(squares), rel=1e-5)


@pytest.mark.parametrize("recipe", ["nanogpt", "fast"])
def test_the_loop_is_the_textbook_loop(text: Path, tmp_path: Path, recipe: str) -> None:
    """The same losses as six lines of torch, evaluation, samples and checkpoints in between or not."""
    cfg = config(text, steps=10, recipe=recipe, log_every=1, precision="fp32")
    run = train(cfg, run=tmp_path / "a")
    data = prepare_data(cfg)
    model = GPT(cfg.model.replace(d_vocab=data.tokenizer.vocab_size)).train()
    optimizers, batches = Optimizers(model, cfg.training), Batches(data.train, 8, 4, 0)
    for step in range(10):
        tokens = torch.from_numpy(batches(step))
        loss = model(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:])
        loss.backward()
        if cfg.training.grad_clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.training.grad_clip)
        optimizers.set_lr(lr_multiplier(step, cfg.training))
        optimizers.step(), optimizers.zero_grad()
        assert run.metrics()[step + 1]["train_loss"] == loss.item()


def test_the_last_position_is_trained(text: Path, tmp_path: Path) -> None:
    run = train(config(text, steps=4), run=tmp_path / "a")
    before, after = open_model(f"{run.path}@0"), open_model(f"{run.path}@4")
    moved = (after.W_pos - before.W_pos).abs().max(-1).values
    assert moved.shape == (8,) and moved[-1] > 0.5 * moved[:-1].min()


def test_how_often_one_looks_changes_nothing(text: Path, tmp_path: Path) -> None:
    dropout = {"resid_dropout": 0.3, "attn_dropout": 0.2, "embed_dropout": 0.1}
    seldom = dict(eval_every=1000, sample_every=0, checkpoint_every=1000, checkpoint_early=False, dynamics=False)
    torch.manual_seed(1)
    a = train(config(text, model=dropout, log_every=1, eval_every=1, sample_every=1), run=tmp_path / "a")
    torch.manual_seed(2)
    b = train(config(text, model=dropout, log_every=1, **seldom), run=tmp_path / "b")
    assert [row["train_loss"] for row in a.metrics()] == [row["train_loss"] for row in b.metrics()]
    for p, q in zip(open_model(a.path).parameters(), open_model(b.path).parameters(), strict=True):
        assert torch.equal(p, q)
    c = train(config(text, model=dropout, log_every=1, seed=1, **seldom), run=tmp_path / "c")
    assert c.metrics()[1]["train_loss"] != b.metrics()[1]["train_loss"], "dropout follows the seed"


def test_training_leaves_torchs_random_stream_alone(text: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(config(text, steps=3, model={"resid_dropout": 0.2}), run=tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)


# --- checkpoints ---------------------------------------------------------------------------------------------


def test_early_checkpoints_are_log_spaced() -> None:
    training = config(Path("x"), steps=1500, checkpoint_every=500).training
    due = [step for step in range(1501) if is_scheduled(step, training)]
    assert due == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 512, 1000, 1500]
    plain = training.replace(checkpoint_early=False)
    assert [step for step in range(1501) if is_scheduled(step, plain)] == [0, 500, 1000, 1500]


def test_old_checkpoints_keep_their_weights_and_the_best_is_kept_apart(text: Path, tmp_path: Path) -> None:
    # a learning rate that spoils the weights later on: the best is early, at a step no schedule keeps
    cfg = config(text, steps=20, checkpoint_every=10, eval_every=3, checkpoint_early=False, optimizer_history=1,
                 schedule="constant", warmup_steps=20, lr=0.5, divergence_patience=0)  # fmt: skip
    run = train(cfg, run=tmp_path / "a")
    losses = {row["step"]: row["val_loss"] for row in run.metrics() if row["val_loss"] is not None}
    best = min(losses, key=lambda step: losses[step])
    assert run.best() == {"step": best, "val_loss": losses[best]} and best not in (0, 10, 20)
    assert run.checkpoints() == sorted({0, best, 10, 20})
    kept = [s for s in run.checkpoints() if (run.checkpoint_path(s) / "optimizer.safetensors").exists()]
    assert kept == [20]
    assert open_model(f"{run.path}@best").tokenizer is not None


def test_a_tied_matrix_is_saved_once(text: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    run = train(config(text, steps=2), run=tmp_path / "a")
    with safe_open(run.checkpoint_path() / "model.safetensors", framework="pt") as file:
        names, metadata = set(file.keys()), file.metadata()
    assert "embed.weight" in names and "unembed.weight" not in names
    assert json.loads(metadata["tied"]) == {"unembed.weight": "embed.weight"}
    model = open_model(run.path)
    assert model.unembed.weight is model.embed.weight


# --- divergence ----------------------------------------------------------------------------------------------


def poison(monkeypatch: pytest.MonkeyPatch, at: int, what: str) -> None:
    """Make the loss, or the gradient alone, not finite at a step."""
    forward, calls = GPT.forward, [0]

    def spoiled(self: GPT, *args: Any, **kwargs: Any) -> Any:
        out = forward(self, *args, **kwargs)
        if self.training and kwargs.get("return_type") == "loss":
            calls[0] += 1
            if calls[0] == at + 1:
                if what == "loss":
                    return out * math.nan
                out.register_hook(lambda gradient: gradient * math.inf)
        return out

    monkeypatch.setattr(GPT, "forward", spoiled)


@pytest.mark.parametrize("recipe", ["nanogpt", "fast"])
@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_value_that_is_not_finite_stops_before_the_step(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, what: str
) -> None:
    poison(monkeypatch, at=7, what=what)
    run = train(config(text, steps=20, recipe=recipe, log_every=1, eval_every=3), run=tmp_path / "a")
    status = run.status()
    assert status.state == "diverged" and "diverged at step 7: the" in (status.error or "") and what in status.error  # type: ignore[operator]
    assert not status.resumable
    raw = (run.path / "metrics.jsonl").read_text()
    assert "NaN" not in raw and "Infinity" not in raw
    assert [row["step"] for row in run.metrics()] == list(range(8)), "the curve keeps its finite part"
    assert all(row["train_loss"] is not None for row in run.metrics()[1:])
    assert run.events()[-1]["event"] == "diverged"
    assert 7 not in run.checkpoints() and max(run.checkpoints()) == 6
    model = open_model(run.path)  # the last good checkpoint
    assert all(torch.isfinite(p).all() for p in model.parameters())
    monkeypatch.undo()
    assert model.generate("the", max_new_tokens=3, seed=0)
    assert math.isfinite(run.best()["val_loss"])  # type: ignore[index]


def test_the_checkpoint_of_the_weights_that_failed_goes(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, at=8, what="loss")  # step 8 is scheduled, its checkpoint is written, then its loss is NaN
    run = train(config(text, steps=20), run=tmp_path / "a")
    assert "diverged at step 8" in (run.status().error or "") and run.checkpoints()[-1] == 6


@pytest.mark.parametrize("recipe", ["nanogpt", "fast"])
def test_an_absurd_learning_rate_diverges(text: Path, tmp_path: Path, recipe: str) -> None:
    cfg = config(text, steps=300, recipe=recipe, lr=100.0, muon_lr=100.0, warmup_steps=0, log_every=1)
    run = train(cfg, run=tmp_path / "a")
    status = run.status()
    assert status.state == "diverged" and status.step < 100, status
    assert f"diverged at step {status.step}" in (status.error or "")
    losses = {row["step"] - 1: row["train_loss"] for row in run.metrics()[1:]}
    newest = run.checkpoints()[-1]
    assert newest == 0 or losses[newest] < 10, "a checkpoint that stays is one whose loss had not exploded"
    assert math.isfinite(evaluate(open_model(run.path), prepare_data(cfg)).loss)


def test_weights_that_are_not_finite_are_not_opened(text: Path, tmp_path: Path) -> None:
    from lab.models import ModelFileError, save_weights

    run = train(config(text, steps=2), run=tmp_path / "a")
    model = open_model(run.path)
    with torch.no_grad():
        model.blocks[1].mlp.w_in.weight[0, 0] = math.nan
    save_weights(model, run.checkpoint_path() / "model.safetensors", {})
    with pytest.raises(ModelFileError, match=r"not finite .blocks\.1\.mlp\.w_in\.weight.*diverged"):
        open_model(run.path)
    assert open_model(run.path, finite=False).W_E.isfinite().all()


# --- pause, stop, signals ------------------------------------------------------------------------------------


def wait_for(condition: Any, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_pause_saves_and_waits_and_continues(text: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"

    def pause(row: Any) -> None:
        if row["step"] == 4:
            Run(path).request_pause()

    thread = threading.Thread(target=train, args=(config(text),), kwargs={"run": path, "on_step": pause})
    thread.start()
    run = Run(path)
    wait_for(lambda: run.exists() and run.status().state == "paused")
    assert run.status().step == 4 and run.status().active and 4 in run.checkpoints()
    time.sleep(0.5)
    assert run.status().step == 4 and len(run.metrics()) == 3
    with pytest.raises(RunBusyError):
        resume(path)
    run.request_continue()
    thread.join(60)
    assert run.status().state == "done"
    assert [e["event"] for e in run.events() if e["event"] not in ("checkpoint",)] == [
        "start",
        "pause",
        "resume",
        "done",
    ]
    twin = train(config(text), run=tmp_path / "b")
    assert [r["train_loss"] for r in run.metrics()] == [r["train_loss"] for r in twin.metrics()]


def test_stop_saves_and_ends_and_can_be_resumed(text: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"
    run = train(config(text), run=path, on_step=lambda row: row["step"] == 4 and Run(path).request_stop())
    assert (run.status().state, run.status().step) == ("stopped", 4) and run.status().resumable
    assert run.events()[-1]["event"] == "stop"
    resume(path)  # a request made to the process before is no request to this one
    assert run.status().state == "done"
    with pytest.raises(ValueError, match="is done"):
        resume(path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(text: Path, tmp_path: Path, number: signal.Signals) -> None:
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    run = train(config(text), run=tmp_path / "a", on_step=lambda row: row["step"] == 4 and os.kill(os.getpid(), number))
    assert (run.status().state, run.status().step, run.checkpoints()[-1]) == ("stopped", 4, 4)
    assert {n: signal.getsignal(n) for n in handlers} == handlers


def test_an_exception_is_noted_and_raised(text: Path, tmp_path: Path) -> None:
    def broken(row: Any) -> None:
        raise RuntimeError("no such luck")

    with pytest.raises(RuntimeError, match="no such luck"):
        train(config(text), run=tmp_path / "a", on_step=broken)
    status = Run(tmp_path / "a").status()
    assert status.state == "failed" and "no such luck" in (status.error or "")
    assert Run(tmp_path / "a").events()[-1]["event"] == "failed"


# --- refused -------------------------------------------------------------------------------------------------


def test_a_run_is_not_trained_over(text: Path, tmp_path: Path) -> None:
    run = train(config(text, steps=2), run=tmp_path / "a")
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*")}
    with pytest.raises(RunExistsError):
        train(config(text, steps=2), run=tmp_path / "a")
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*")} == before


def test_a_prompt_the_tokenizer_cannot_read_is_told_at_once(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="日"):
        train(config(text, sample_prompt="日本"), run=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_changed_corpus_is_not_resumed_on(text: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text(text.read_text())
    run = train(
        config(own), run=tmp_path / "a", on_step=lambda r: r["step"] == 4 and Run(tmp_path / "a").request_stop()
    )
    own.write_text(text.read_text().replace("fox", "fog", 1))
    with pytest.raises(ValueError, match="the corpus is no longer the one"):
        resume(run)
    own.write_text(text.read_text())
    assert resume(run).status().state == "done"


def test_bf16_is_refused_where_it_would_be_emulated(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.training.precision.cpu_flags", lambda: frozenset({"avx2"}))
    with pytest.raises(ValueError, match="no bf16 products of its own"):
        train(config(text, precision="bf16", device="cpu"), run=tmp_path / "a")
    run = train(config(text, steps=2, device="cpu", model={"d_model": 256}), run=tmp_path / "b")
    assert run.config["training"]["precision"] == "fp32"


def test_a_device_that_is_not_there_is_refused(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no CUDA device"):
        train(config(text, device="cuda"), run=tmp_path / "a")


# --- a detached process, a full disk ---------------------------------------------------------------------------


def test_a_detached_run_trains_on_its_own(text: Path, tmp_path: Path) -> None:
    run = start_training(config(text, steps=4), tmp_path / "a")
    assert run.status().state in ("queued", "running")
    wait_for(lambda: not run.status().active)
    assert run.status().state == "done", run.log()
    assert run.config["model"]["d_vocab"] == run.tokenizer().vocab_size and "step 4" in run.log()
    with pytest.raises(RunExistsError):
        start_training(config(text), tmp_path / "a")


def test_a_detached_run_that_cannot_start_says_why(tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("abc " * 3)
    run = start_training(config(short), tmp_path / "a")
    wait_for(lambda: not run.status().active)
    status = run.status()
    assert status.state == "failed" and "one window of the context 8 needs 9" in (status.error or "")


def train_on_a_full_disk(run: Run, limit: int, at: int) -> None:
    """Train in a child in which, from step `at` on, no file may grow beyond `limit` bytes; then it ends with code 2.

    A fork: the limit cannot be lifted again, and a new interpreter would import torch first.
    """
    child = os.fork()
    if child == 0:
        code = 99
        try:
            signal.signal(
                signal.SIGXFSZ, signal.SIG_IGN
            )  # writing beyond the limit is then an error, as on a full disk
            save = trainer.save_checkpoint

            def filling(run: Run, model: Any, optimizers: Any, progress: Any, *noted: Any) -> Path:
                if progress.step == at:
                    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
                return save(run, model, optimizers, progress, *noted)

            trainer.save_checkpoint = filling
            try:
                execute(run)
            except OSError:
                code = 2
        finally:
            os._exit(code)
    _, ending = os.waitpid(child, 0)
    assert os.WEXITSTATUS(ending) == 2


@pytest.mark.parametrize("limit", [3_000, 30_000])  # while the weights, or the moments, are being written
def test_a_full_disk_names_the_path_and_loses_nothing(text: Path, tmp_path: Path, limit: int) -> None:
    run = Run(tmp_path / "a").create(config(text, steps=12, device="cpu").to_dict())
    train_on_a_full_disk(run, limit, at=8)
    status = run.status()
    assert status.state == "failed" and str(run.path / "checkpoints") in (status.error or ""), status
    assert run.checkpoints() == [0, 1, 2, 4, 6], "the one that did not fit is not half there"
    assert not list((run.path / "checkpoints").glob(".*"))
    assert open_model(run.path).tokenizer is not None
    assert resume(run).status().state == "done"
    twin = train(config(text, steps=12, device="cpu"), run=tmp_path / "b")
    assert [r["train_loss"] for r in run.metrics()] == [r["train_loss"] for r in twin.metrics()]


def test_a_place_that_cannot_be_written_is_named(text: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=str(tmp_path / "file")):
        train(config(text, steps=2), run=tmp_path / "file" / "a")


@pytest.mark.slow
def test_a_compiled_run_loses_what_an_eager_one_loses(text: Path, tmp_path: Path) -> None:
    """torch.compile takes a minute or two, whatever the model's size."""
    eager = train(config(text, steps=5, log_every=1), run=tmp_path / "eager")
    compiled = train(config(text, steps=5, log_every=1, compile=True), run=tmp_path / "compiled")
    losses = [[row["train_loss"] for row in run.metrics()[1:]] for run in (eager, compiled)]
    np.testing.assert_allclose(*losses, atol=1e-5)
    assert compiled.metrics()[-1]["val_loss"] == pytest.approx(eager.metrics()[-1]["val_loss"], abs=1e-5)
