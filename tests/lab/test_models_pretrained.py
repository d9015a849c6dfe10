"""Pretrained models through the laboratory: open_model, the command line, runs that go out and come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lab import Run, open_model
from lab.cli import main
from lab.models import describe_model, is_pretrained, save_as_run
from lab.runs import RunExistsError
from lab.tokenizers import train_tokenizer
from lab.training import build_run_config, train
from model import GPT, GPTConfig


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 10)
    training = dict(batch_size=2, eval_every=4, checkpoint_every=4, sample_every=0, dynamics=False)
    shape: dict[str, Any] = dict(n_ctx=8, d_model=16, n_layers=1, n_heads=2)
    config = build_run_config(
        str(folder / "text.txt"), "nano", "nanogpt", steps=4, model_overrides=shape, training_overrides=training
    )
    return train(config, run=folder / "a")


def say(*words: str) -> int:
    return main(list(words))


def test_a_trained_model_through_the_command_line(shared: Path, tmp_path: Path, capsys) -> None:
    folder, prompt = str(shared / "models/gpt2-arch-mgm"), "<bos> g__Bacteroides"
    assert say("inspect", folder, "--prompt", prompt, "--json", str(tmp_path / "x.json")) == 0
    found = json.loads((tmp_path / "x.json").read_text())
    assert [token["text"] for token in found["tokens"]] == ["<bos>", "g__Bacteroides"]
    best = found["next_token"][0]
    assert best["text"] == "g__Parabacteroides" and abs(best["probability"] - 0.193) < 0.005
    capsys.readouterr()
    assert say("sample", folder, "--prompt", prompt, "--temperature", "0", "--tokens", "2") == 0
    written = capsys.readouterr().out
    assert written.startswith("<bos> g__Bacteroides g__Parabacteroides g__")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "model.safetensors").write_bytes(b"text"), "no whole safetensors file"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        (lambda f: (f / "config.json").write_text('{"model_type": "t5"}'), "model_type 't5'"),
        (lambda f: (f / "config.json").write_text("{"), "is no"),
    ],
)
def test_bad_folders_end_in_one_sentence(spoil, words: str, tmp_path: Path, capsys) -> None:
    GPT(GPTConfig(d_vocab=9, n_ctx=8, d_model=8, n_layers=1, n_heads=2)).save_pretrained(tmp_path)
    spoil(tmp_path)
    assert say("sample", str(tmp_path), "--prompt", "x") == 2
    told = capsys.readouterr().err
    assert words in told.replace("is not valid JSON", "is no") and len(told.strip().splitlines()) == 1


def test_what_loading_takes_is_said_before(tmp_path: Path, capsys) -> None:
    """A big model's config alone: its memory is told, then its weights are missed."""
    large = GPTConfig()
    folder = tmp_path / "gpt2"
    GPT(GPTConfig(d_vocab=9, n_ctx=8, d_model=8, n_layers=1, n_heads=2)).save_pretrained(folder)
    from model.pretrained.configs import write_config

    (folder / "config.json").write_text(json.dumps(write_config(large)))
    assert str(describe_model(folder)).endswith("gpt2, 124,439,808 parameters, 498 MB of memory in float32")
    assert say("sample", str(folder), "--prompt", "x") == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert "498 MB" in lines[0] and "tensor 'h.1.attn.c_attn.bias' is missing" in lines[1] and len(lines) == 2


def test_a_name_on_the_hub_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert say("inspect", "gpt2-xl", "--prompt", "x") == 2
    told = capsys.readouterr().err
    assert "'gpt2-xl' is no folder here" in told and len(told.strip().splitlines()) == 1


def test_runs_come_before_names_on_the_hub(trained: Run, monkeypatch: pytest.MonkeyPatch, runs_folder: Path) -> None:
    assert is_pretrained("gpt2") and is_pretrained("owner/name")
    assert not is_pretrained("a") and not is_pretrained("gpt-2-mine") and not is_pretrained("gpt2@5")
    save_as_run(open_model(trained.path), runs_folder / "gpt2")
    assert not is_pretrained("gpt2")
    assert open_model("gpt2").config.n_ctx == 8


def test_a_run_goes_out_and_comes_back(trained: Run, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = open_model(trained.path)
    model.save_pretrained(tmp_path / "out")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("the fox", return_tensors="pt", add_special_tokens=False).input_ids
    assert ids.tolist() == model.to_tokens("the fox").tolist()
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, model(ids), atol=1e-4, rtol=0)
    again = open_model(tmp_path / "out")
    assert again.config == model.config and again.tokenizer.encode("the fox") == ids[0].tolist()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))
    assert "parameters" in str(describe_model(tmp_path / "out"))


def test_a_model_from_elsewhere_becomes_a_run(tmp_path: Path, shared: Path) -> None:
    model = open_model(shared / "models/gpt2-arch-mgm")
    run = save_as_run(model, tmp_path / "runs/genera", corpus="MGnify genera", step=40)
    assert run.checkpoints() == [40] and run.status().state == "done" and not run.status().alive
    again = open_model(run.path)
    assert again.tokenizer == model.tokenizer == run.tokenizer()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))
    with pytest.raises(RunExistsError):
        save_as_run(model, run.path)
    from lab.training import RunConfig

    assert RunConfig.from_dict(run.config).model == model.config


def test_nanogpt_to_a_run(tmp_path: Path, capsys) -> None:
    """What docs/loading-weights.md does."""
    text = "to be or not to be, that is the question"
    tokenizer = train_tokenizer("char", text)
    model = GPT(
        GPTConfig(
            d_vocab=tokenizer.vocab_size, n_ctx=16, d_model=16, n_layers=2, n_heads=2, act_fn="gelu", use_bias=False
        )
    )
    ours = model.state_dict()
    state = {"transformer.wte.weight": ours["embed.weight"], "transformer.wpe.weight": ours["pos_embed.weight"]}
    state |= {"transformer.ln_f.weight": ours["ln_final.w"], "lm_head.weight": ours["embed.weight"]}
    names = {
        "ln1.w": "ln_1.weight",
        "attn.w_qkv.weight": "attn.c_attn.weight",
        "attn.w_o.weight": "attn.c_proj.weight",
        "ln2.w": "ln_2.weight",
        "mlp.w_in.weight": "mlp.c_fc.weight",
        "mlp.w_out.weight": "mlp.c_proj.weight",
    }
    for layer in range(2):
        state |= {f"transformer.h.{layer}.{theirs}": ours[f"blocks.{layer}.{name}"] for name, theirs in names.items()}
    args = dict(n_layer=2, n_head=2, n_embd=16, block_size=16, bias=False, vocab_size=tokenizer.vocab_size, dropout=0.0)
    torch.save({"model": {f"_orig_mod.{k}": v for k, v in state.items()}, "model_args": args}, tmp_path / "ckpt.pt")

    loaded = open_model(tmp_path / "ckpt.pt")
    assert loaded.config.use_bias is False
    loaded.tokenizer = tokenizer
    save_as_run(loaded, tmp_path / "runs/mine")
    x = torch.tensor([tokenizer.encode("to be")])
    with torch.no_grad():
        assert torch.equal(open_model(tmp_path / "runs/mine")(x), model.eval()(x))
    assert say("sample", str(tmp_path / "runs/mine"), "--prompt", "to be", "--tokens", "3", "--seed", "1") == 0
    assert capsys.readouterr().out.startswith("to be")
