"""open_model: what opens, what does not, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lab import Run, open_model
from lab.models import ModelFileError, load_weights, save_as_run, save_weights
from lab.training import build_run_config, train
from model import GPT, GPTConfig
from model.pretrained import PretrainedError

TINY: dict[str, Any] = dict(n_ctx=8, d_model=16, n_layers=1, n_heads=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 10)
    training = dict(batch_size=2, eval_every=2, checkpoint_every=2, sample_every=0, dynamics=False)
    config = build_run_config(
        str(folder / "text.txt"), "nano", "nanogpt", steps=4, model_overrides=TINY, training_overrides=training
    )
    return train(config, run=folder / "a")


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    """A copy to spoil."""
    import shutil

    shutil.copytree(trained.path, tmp_path / "a")
    return Run(tmp_path / "a")


def equal(a: GPT, b: GPT) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_every_way_to_name_a_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = open_model(run.path)
    assert not newest.training and newest.tokenizer == run.tokenizer()
    assert equal(newest, open_model(f"{run.path}@4")) and equal(newest, open_model(f"{run.path}@latest"))
    assert equal(newest, open_model(run.checkpoint_path(4)))
    assert equal(open_model(f"{run.path}@best"), open_model(run.checkpoint_path(run.best()["step"])))  # type: ignore[index]
    assert not equal(newest, open_model(f"{run.path}@0"))
    monkeypatch.setenv("RESIDLAB_RUNS", str(run.path.parent))
    assert equal(newest, open_model("a")) and equal(newest, open_model("a@4"))
    assert open_model("a", dtype=torch.float64).dtype == torch.float64


def test_a_folder_that_holds_a_model_alone(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    folder.mkdir()
    model = open_model(run.path)
    (folder / "config.json").write_text(json.dumps(model.config.to_dict()))
    save_weights(model, folder / "model.safetensors", {})
    assert equal(model, open_model(folder)) and open_model(folder).tokenizer is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("{run}@3", r"no checkpoint 3 .it has: 0, 1, 2, 4"),
        ("{run}@newest", '"newest" is no checkpoint'),
        ("{run}-x", "there is no run at"),
        ("{run}/checkpoints", "holds neither a run"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(run: Run, spec: str, words: str) -> None:
    with pytest.raises(FileNotFoundError, match=words):
        open_model(spec.format(run=run.path))


def test_a_hugging_face_folder_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(PretrainedError, match="lacks the field 'vocab_size', which gpt2 needs"):
        open_model(tmp_path)


def test_another_tokenizer_is_an_error(run: Run) -> None:
    tokenizer = json.loads((run.path / "tokenizer.json").read_text())
    text = json.dumps(tokenizer).replace("x", "X")
    (run.path / "tokenizer.json").write_text(text)
    with pytest.raises(ModelFileError, match="was trained with another tokenizer"):
        open_model(run.path)


def rewrite(run: Run, change: Any) -> None:
    path = run.checkpoint_path() / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("blocks.0.attn.w_o.weight"), r"lacks tensor 'blocks\.0\.attn\.w_o\.weight'"),
        (lambda t: t.update({"blocks.9.x": torch.zeros(1)}), r"has an unknown tensor 'blocks\.9\.x'"),
        (
            lambda t: t.update({"blocks.0.ln1.w": torch.zeros(3)}),
            r"ln1\.w has shape \(3,\), but the config makes it \(16,\)",
        ),
        (lambda t: t.update({"unembed.weight": torch.zeros(28, 16)}), "the config ties it"),
    ],
)
def test_weights_that_do_not_fit_are_named(run: Run, change: Any, words: str) -> None:
    rewrite(run, change)
    with pytest.raises(ModelFileError, match=words):
        open_model(run.path)


def test_tied_weights_into_an_untied_model_are_an_error(run: Run, tmp_path: Path) -> None:
    config = GPTConfig.from_dict(run.config["model"])
    untied = GPT(config.replace(tie_word_embeddings=False))
    with pytest.raises(ModelFileError, match="the config unties them"):
        load_weights(untied, run.checkpoint_path() / "model.safetensors")
    save_weights(untied, tmp_path / "untied.safetensors", {})
    with pytest.raises(ModelFileError, match="the config ties it"):
        load_weights(GPT(config), tmp_path / "untied.safetensors")


def test_a_damaged_file_is_named(run: Run) -> None:
    path = run.checkpoint_path() / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ModelFileError, match=r"model\.safetensors is damaged"):
        open_model(run.path)


def test_an_untied_model_goes_to_disk_and_back(tmp_path: Path) -> None:
    config = GPTConfig(d_vocab=9, tie_word_embeddings=False, **TINY)
    model, other = GPT(config), GPT(config.replace(seed=1))
    save_weights(model, tmp_path / "x.safetensors", {"note": "kept"})
    assert load_weights(other, tmp_path / "x.safetensors")["note"] == "kept" and equal(model, other)


@pytest.mark.parametrize("part", ["model", "block"])
def test_a_compiled_model_is_kept_under_its_own_names(tmp_path: Path, part: str) -> None:
    model = GPT(GPTConfig(d_vocab=11, d_model=16, n_layers=2, n_heads=2, n_ctx=8))
    whole = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wrapped = model
    if part == "block":
        model.blocks[1] = torch.compile(model.blocks[1])
    else:
        wrapped = torch.compile(model)
    assert any("_orig_mod." in name for name in wrapped.state_dict())
    kept = open_model(save_as_run(wrapped, tmp_path / "a").path).state_dict()
    assert kept.keys() == whole.keys() and all(torch.equal(kept[name], whole[name]) for name in whole)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_is_opened_in_the_precision_it_was_kept_in(tmp_path: Path, dtype: torch.dtype) -> None:
    model = GPT(GPTConfig(d_vocab=11, d_model=16, n_layers=1, n_heads=2, n_ctx=8)).to(dtype)
    assert open_model(save_as_run(model, tmp_path / "a").path).W_E.dtype == dtype
