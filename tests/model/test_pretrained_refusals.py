"""What from_pretrained refuses: one sentence that names the file, tensor or field, and nothing half-loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model import GPT
from model.pretrained import PretrainedError, describe_pretrained, from_pretrained, sources
from tests.model.references import reference

WTE, WPE = "transformer.wte.weight", "transformer.wpe.weight"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    reference("gpt2").save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(saved, tmp_path / "gpt2"))


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {name.replace(old, new): tensor for name, tensor in state.items()}


TENSORS = {
    "unknown": (
        lambda s: {**s, "transformer.h.0.attn.c_attn.biass": torch.zeros(48)},
        r"unknown tensor 'transformer\.h\.0\.attn\.c_attn\.biass'; did you mean 'h\.0\.attn\.c_attn\.bias'",
    ),
    "another layer": (
        lambda s: {**s, "transformer.h.2.ln_1.weight": torch.zeros(16)},
        r"unknown tensor 'transformer\.h\.2\.ln_1\.weight'",
    ),
    "not the mask": (
        lambda s: {**s, "transformer.h.0.attn.bias": torch.ones(1, 1, 32, 32)},
        r"transformer\.h\.0\.attn\.bias \[1, 1, 32, 32\] is not the causal mask",
    ),
    "missing": (
        lambda s: {k: v for k, v in s.items() if k != "transformer.h.1.mlp.c_fc.bias"},
        r"tensor 'h\.1\.mlp\.c_fc\.bias' is missing",
    ),
    "missing bias of c_attn": (
        lambda s: {k: v for k, v in s.items() if not k.endswith("c_attn.bias")},
        r"tensor 'h\.0\.attn\.c_attn\.bias' is missing",
    ),
    "misshapen": (
        lambda s: {**s, WPE: torch.zeros(31, 16)},
        r"wpe\.weight has shape \[31, 16\], but the config makes it \[32, 16\]",
    ),
    "one matrix the other way": (
        lambda s: {**s, "transformer.h.0.mlp.c_fc.weight": s["transformer.h.0.mlp.c_fc.weight"].T},
        r"h\.0\.mlp\.c_fc\.weight has shape \[64, 16\], but the config makes it \[16, 64\]",
    ),
    "disagreeing head": (
        lambda s: {**s, "lm_head.weight": s[WTE] + 1},
        r"lm_head\.weight and transformer\.wte\.weight disagree, but the config ties them",
    ),
    "mixed prefixes": (
        lambda s: {k.removeprefix("transformer.") if k == WTE else k: v for k, v in s.items()},
        r"mixes spellings: 'wte\.weight' has no prefix, but '.*' has transformer\.",
    ),
    "two wrappers": (
        lambda s: {("module." + k if "h.1." in k else k): v for k, v in s.items()},
        r"mixes spellings: 'transformer\.h\..*|mixes spellings: 'module\.transformer\.h\.1\.",
    ),
    "unknown prefix": (renamed("transformer.", "gpt."), r"unknown tensor 'gpt\.h\.0\."),
    "twice": (lambda s: {**s, "wte.weight": s[WTE].clone()}, r"mixes spellings|the same tensor under two names"),
    "whole numbers": (lambda s: {**s, WPE: torch.zeros(32, 16, dtype=torch.int8)}, r"int8: quantised weights"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_that_do_not_fit_are_named(folder: Path, case: str) -> None:
    change, words = TENSORS[case]
    path = folder / "model.safetensors"
    state = change(load_file(path))
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(folder)


def edit(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.update(values)
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))


CONFIGS = {
    "another architecture": (dict(model_type="bert"), r"model_type 'bert'; what can be read are gpt2, llama"),
    "no architecture": (dict(model_type="absent"), "no model_type"),
    "scores unscaled": (dict(scale_attn_weights=False), "scale_attn_weights False computes something"),
    "scores by layer": (dict(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx True"),
    "no width": (dict(n_embd="absent"), "lacks the field 'n_embd'"),
    "width that heads do not divide": (dict(n_head=3), "describes no model that can be built: .*n_heads"),
    "width in words": (dict(n_embd="sixteen"), "describes no model that can be built"),
    "activation": (dict(activation_function="quick_gelu"), "activation 'quick_gelu' is not here; known are gelu"),
    "quantised": (dict(quantization_config={"bits": 4}), "quantised weights"),
    "untied without a head": (dict(tie_word_embeddings=False), r"'lm_head\.weight' is missing .*not tied"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs_that_do_not_fit_are_named(folder: Path, case: str) -> None:
    values, words = CONFIGS[case]
    edit(folder, **values)
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(folder)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (dict(rope_parameters={"rope_type": "mrope", "rope_theta": 1e4}), "rope_type 'mrope' has no counterpart"),
        (dict(rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5}), r"partial_rotary_factor is 0\.5"),
        (dict(rope_parameters={"rope_type": "linear", "rope_theta": 1e4}), "lacks the field 'factor'"),
    ],
)
def test_rotary_positions_of_another_kind(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    reference("llama").save_pretrained(tmp_path)
    edit(tmp_path, **values)
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(tmp_path)


def test_files_that_are_not_what_they_are_called(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for spoilt in (whole[: len(whole) // 2], b"just some text, and no weights at all", b""):
        path.write_bytes(spoilt)
        with pytest.raises(PretrainedError, match=r"model\.safetensors is no whole safetensors file"):
            GPT.from_pretrained(folder)
    path.unlink()
    with pytest.raises(PretrainedError, match="holds a config but no weights"):
        GPT.from_pretrained(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(PretrainedError, match=r"config\.json is no JSON file"):
        GPT.from_pretrained(folder)
    (folder / "config.json").unlink()
    with pytest.raises(PretrainedError, match=r"holds no model: there is no config\.json"):
        GPT.from_pretrained(folder)


class Harm:
    """Unpickled, it would run code."""

    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({WTE: Harm()}, "holds more than weights and plain values, and nothing in it is executed"),
        ({"epoch": 3}, "holds 'epoch', which is no tensor but int"),
        ([1, 2], "holds no state dict"),
    ],
)
def test_torch_files_are_weights_or_nothing(folder: Path, content: Any, words: str) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(folder)


def test_torch_files_that_are_damaged(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save({WTE: torch.zeros(4)}, path)
    for spoilt in (path.read_bytes()[:100], b"hello", b""):
        path.write_bytes(spoilt)
        with pytest.raises(PretrainedError, match=r"pytorch_model\.bin"):
            GPT.from_pretrained(folder)


def test_parts_that_are_missing(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    with pytest.raises(PretrainedError, match="holds 1 of the 2 files"):
        GPT.from_pretrained(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {WTE: "model-00003-of-00003.safetensors"}}))
    with pytest.raises(PretrainedError, match=r"lacks model-00003-of-00003\.safetensors"):
        GPT.from_pretrained(folder)
    index.write_text(json.dumps({"weight_map": {WTE: "../other.safetensors"}}))
    with pytest.raises(PretrainedError, match="points out of its folder"):
        GPT.from_pretrained(folder)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (dict(n_layer=1), "lacks 'n_head'"),
        (dict(n_layer=1, n_head=3, n_embd=8, block_size=4, vocab_size=5), "no model that can be built"),
        (dict(n_layer=1, n_head=2, n_embd=8, block_size=4, vocab_size=5, rope=True), "has 'rope'"),
        (None, "model_args is NoneType"),
    ],
)
def test_nanogpt_checkpoints_that_are_none(tmp_path: Path, args: Any, words: str) -> None:
    torch.save({"model": {"x": torch.zeros(1)}, "model_args": args}, tmp_path / "ckpt.pt")
    with pytest.raises(PretrainedError, match=words):
        GPT.from_pretrained(tmp_path / "ckpt.pt")
    torch.save({"model": {}}, tmp_path / "ckpt.pt")
    with pytest.raises(PretrainedError, match="no checkpoint of nanoGPT"):
        GPT.from_pretrained(tmp_path)


def test_gguf_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_text("text")
    with pytest.raises(PretrainedError, match=r"x\.gguf is no GGUF file"):
        GPT.from_pretrained(tmp_path)


def test_a_dtype_that_is_none(folder: Path) -> None:
    for dtype in ("int8", torch.int8):
        with pytest.raises(PretrainedError, match="dtype is"):
            GPT.from_pretrained(folder, dtype=dtype)


# --- the network -----------------------------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("somebody reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_folder_never_needs_the_network(folder: Path, no_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    for name in (folder, "gpt2"):  # a folder wins over a name on the hub
        model = GPT.from_pretrained(name)
        assert model.tokenizer is None
        assert model(torch.tensor([[1, 2]])).shape == (1, 2, 23)
        with pytest.raises(ValueError, match="has no tokenizer"):
            model("text")


def test_offline_is_said_in_one_sentence(tmp_path: Path, no_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for load in (GPT.from_pretrained, describe_pretrained):
        with pytest.raises(PretrainedError, match=r"'someone/nothing' is no folder here .* HF_HUB_OFFLINE is set") as e:
            load("someone/nothing")
        assert "\n" not in str(e.value)


def test_the_hub_is_asked_for_what_is_needed(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the small files, with safetensors; .bin only where there are none."""
    import fnmatch
    import shutil

    import huggingface_hub

    shutil.copytree(saved, tmp_path / "hub")
    (tmp_path / "cache").mkdir()
    asked: list[list[str]] = []

    def snapshot_download(name: str, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        assert name == "someone/gpt2" and ignore_patterns == ["*/*"]
        asked.append(allow_patterns)
        for path in (tmp_path / "hub").iterdir():
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in allow_patterns):
                shutil.copy(path, tmp_path / "cache")
        return str(tmp_path / "cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    described = describe_pretrained("someone/gpt2")
    assert described is not None and described.source == "hub" and described.parameters == 7472
    assert not list((tmp_path / "cache").glob("*.safetensors"))  # nothing large before it is wanted
    first = GPT.from_pretrained("someone/gpt2")
    assert len(asked) == 2
    (tmp_path / "cache/model.safetensors").unlink()
    torch.save(load_file(tmp_path / "hub/model.safetensors"), tmp_path / "hub/pytorch_model.bin")
    (tmp_path / "hub/model.safetensors").unlink()
    second = GPT.from_pretrained("someone/gpt2")
    assert len(asked) == 4 and asked[-1][-1] == "pytorch_model*.bin"
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))
    for path in (tmp_path / "cache").glob("pytorch_model*"):
        path.unlink()
    (tmp_path / "hub/pytorch_model.bin").unlink()
    with pytest.raises(PretrainedError, match="The cache holds its config, but no weights"):
        GPT.from_pretrained("someone/gpt2")


def test_a_download_tells_its_bytes_in_the_thread_that_asked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def snapshot_download(name: str, tqdm_class: Any, **_: Any) -> str:
        """Bars as the hub's: whole files, bytes from the network, bytes written; moved in another thread."""
        received = tqdm_class(total=0, unit="B", unit_scale=True)
        written = tqdm_class(total=0, unit="B", unit_scale=True)
        files = tqdm_class(total=2000, unit="it")
        received.total = written.total = 900
        for _ in range(3):
            written.update(300)
            files.update(500)
            time.sleep(0.05)
        return str(saved)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(sources, "TELL_SECONDS", 0.02)
    heard: list[tuple[int, int]] = []
    threads = set()

    def on_download(done: int, known: int) -> None:
        heard.append((done, known))
        threads.add(threading.get_ident())

    assert from_pretrained("someone/gpt2", on_download=on_download).config.n_layers
    assert heard == sorted(heard) and heard[0][0] < heard[-1][0] and heard[-1] == (900, 900)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("GatedRepoError", "is gated: accept its licence"),
        ("RepositoryNotFoundError", "There is no model 'someone/secret' on the hub"),
        ("HfHubHTTPError", "The hub refused 'someone/secret': why"),
        ("ConnectError", "the hub cannot be reached|HF_HUB_OFFLINE is set"),
    ],
)
def test_what_the_hub_answers_is_said_in_one_sentence(error: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    import huggingface_hub
    from huggingface_hub import errors

    def snapshot_download(*_: Any, **__: Any) -> str:
        if error == "ConnectError":
            raise httpx.ConnectError("no route")
        response = httpx.Response(403, request=httpx.Request("GET", "https://example.org"))
        raise getattr(errors, error)("why\nand more", response=response)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(PretrainedError, match=words) as told:
        GPT.from_pretrained("someone/secret")
    assert "\n" not in str(told.value)


def test_what_is_no_name_of_a_model_is_no_reason_to_ask_the_hub(no_network: None) -> None:
    for name in ("/nowhere/at/all", "./nothing", "a/b/c", "tests/nothing"):
        with pytest.raises(PretrainedError, match="There is no folder"):
            GPT.from_pretrained(name)


def test_describing_needs_no_torch(saved: Path, root: Path) -> None:
    code = (
        "import sys; from model.pretrained import describe_pretrained as d; "
        f"x = d({str(saved)!r}); assert 'torch' not in sys.modules; print(x, x.parameters)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "gpt2, 7,472 parameters, 0 MB of memory in float32 7472" in done.stdout
