"""Files that are not what their name says, or cannot be read: what they are and what mends it, in one sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import signal
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from model import GPT
from model.pretrained import PretrainedError, describe_pretrained
from tests.model.references import reference


@pytest.fixture(autouse=True)
def nothing_hangs() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    reference("gpt2").save_pretrained(folder)
    return folder


def packed(suffix: str) -> bytes:
    made = io.BytesIO()
    if suffix == "tar":
        with tarfile.open(fileobj=made, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    else:
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("x", "text")
    return made.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 548118077\n"
KINDS: dict[str, tuple[bytes, str]] = {
    "git-lfs": (POINTER, "a git-lfs pointer and not the file itself: run `git lfs pull`"),
    "html": (b"<!DOCTYPE html>\n<html><head><title>Log in</title>", "a web page or an answer of a server"),
    "html in small letters": (b"\n  <html lang='en'>", "a web page or an answer of a server"),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "a web page or an answer of a server"),
    "gzip": (gzip.compress(b"x" * 100), "compressed by gzip: unpack it first"),
    "xz": (b"\xfd7zXZ\x00\x00\x04", "compressed by xz"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00", "compressed by zstd"),
    "bzip2": (b"BZh91AY&SY", "compressed by bzip2"),
    "tar": (packed("tar"), "a tar archive: unpack it first"),
    "zip": (packed("zip"), "a zip archive: unpack it first"),
    "json": (b'{"error": "Repository not found"}', "JSON text"),
    "text": (b"Entry not found", "plain text, which begins 'Entry not found'"),
    "text that is not English": ("找不到文件".encode(), "plain text, which begins '找不到文件'"),
    "numpy": (b"\x93NUMPY\x01\x00", "an array of numpy"),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    "empty": (b"", "empty"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "ckpt.pt", "x.gguf", "config.json"])
def test_what_a_file_is_is_said(kind: str, name: str, tmp_path: Path) -> None:
    content, words = KINDS[kind]
    if name in ("model.safetensors", "pytorch_model.bin"):
        (tmp_path / "config.json").write_text(json.dumps(reference("gpt2").config.to_dict()))
    (tmp_path / name).write_bytes(content)
    if name == "config.json" and kind in ("json", "text", "text that is not English"):
        words = "no model_type" if kind == "json" else "is no JSON file"
        (tmp_path / "model.safetensors").touch()
    with pytest.raises(PretrainedError) as told:
        GPT.from_pretrained(tmp_path)
    assert words in str(told.value) and name in str(told.value) and "\n" not in str(told.value)


def test_a_model_under_another_models_name(saved: Path, tmp_path: Path) -> None:
    shutil.copy(saved / "config.json", tmp_path)
    torch.save(load_file(saved / "model.safetensors"), tmp_path / "model.safetensors")
    with pytest.raises(PretrainedError, match=r"it is a file of torch\.save: give it a name that ends in \.bin"):
        GPT.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    shutil.copy(saved / "model.safetensors", tmp_path / "pytorch_model.bin")
    with pytest.raises(PretrainedError, match=r"is a safetensors file: give it a name that ends in \.safetensors"):
        GPT.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "pytorch_model.bin", "x.gguf", "ckpt.pt",
                                  "model.safetensors.index.json", "model-00001-of-00002.safetensors"])  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "broken link", "no permission"])
def test_what_is_no_file_to_read_is_refused_at_once(
    name: str, kind: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    if "model" in name:
        shutil.copy(saved / "config.json", tmp_path)
    if "00001" in name:
        index = {"weight_map": {"transformer.wte.weight": name}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    words = f"is a {'named pipe' if kind == 'pipe' else kind}; a regular file is needed"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "broken link":
        path.symlink_to(tmp_path / "gone")
        words = "cannot be read: No such file"
    else:
        path.write_bytes(b"x")
        real = Path.open

        def closed(self: Path, *args: Any, **kwargs: Any) -> Any:  # as root nothing is forbidden
            if self.name == name:
                raise PermissionError(13, "Permission denied", str(self))
            return real(self, *args, **kwargs)

        monkeypatch.setattr(Path, "open", closed)
        words = "may not be read by this user (permission denied)"
    with pytest.raises(PretrainedError) as told:
        GPT.from_pretrained(tmp_path)
    assert words in str(told.value) and name in str(told.value)
    if path.suffix in (".gguf", ".pt") and kind != "folder":
        with pytest.raises(PretrainedError) as told:
            GPT.from_pretrained(path)
        assert words in str(told.value)


def test_weights_of_a_run_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.models import load_weights, save_weights
    from tests.model.variants import tiny

    model = tiny()
    path = tmp_path / "model.safetensors"
    save_weights(model, path, {})
    load_weights(model, path)
    monkeypatch.setattr(Path, "open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(PretrainedError, match=r"model\.safetensors may not be read by this user \(permission denied\)"):
        load_weights(model, path)
    monkeypatch.undo()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PretrainedError, match="is a named pipe"):
        load_weights(model, path)


JSONS = {
    "deep list": "[" * 3_000_000,
    "deep object": '{"a":' * 200_000,
    "many digits": '{"n_embd": ' + "1" * 5000 + "}",
    "no JSON": "{",
    "no text": "\udcff",
    "a list": "[1]",
    "a number": "3",
}


@pytest.mark.parametrize("case", JSONS)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "adapter_config.json"])
def test_json_files_that_are_damaged(case: str, name: str, saved: Path, tmp_path: Path) -> None:
    if name != "config.json":
        shutil.copy(saved / "config.json", tmp_path)
    if name == "adapter_config.json":
        shutil.copy(saved / "model.safetensors", tmp_path)
    (tmp_path / name).write_bytes(JSONS[case].encode("utf-8", "surrogateescape"))
    with pytest.raises(PretrainedError) as told:
        GPT.from_pretrained(tmp_path)
    assert name in str(told.value) and "\n" not in str(told.value)
    if name == "config.json":
        with pytest.raises(PretrainedError):
            describe_pretrained(tmp_path)


# --- torch.save ------------------------------------------------------------------------------------------------


def nanogpt(tied: bool = True) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    args = dict(n_layer=1, n_head=2, n_embd=8, block_size=12, bias=False, vocab_size=11, dropout=0.0)
    shapes = {
        "wte": (11, 8),
        "wpe": (12, 8),
        "ln_f": (8,),
        "h.0.ln_1": (8,),
        "h.0.attn.c_attn": (24, 8),
        "h.0.attn.c_proj": (8, 8),
        "h.0.ln_2": (8,),
        "h.0.mlp.c_fc": (32, 8),
        "h.0.mlp.c_proj": (8, 32),
    }
    state = {f"transformer.{k}.weight": torch.randn(v, generator=generator) for k, v in shapes.items()}
    head = state["transformer.wte.weight"] if tied else torch.randn(11, 8, generator=generator)
    return {"model": {**state, "lm_head.weight": head}, "model_args": args, "iter_num": 3}


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_a_nanogpt_with_a_head_of_its_own_keeps_it(prefix: str, tmp_path: Path) -> None:
    content = nanogpt(tied=False)
    content["model"] = {prefix + name: tensor for name, tensor in content["model"].items()}
    torch.save(content, tmp_path / "ckpt.pt")
    model = GPT.from_pretrained(tmp_path)
    assert not model.config.tie_word_embeddings
    assert torch.equal(model.unembed.weight, content["model"][f"{prefix}lm_head.weight"])
    assert torch.equal(model.embed.weight, content["model"][f"{prefix}transformer.wte.weight"])


def test_each_tensor_of_a_nanogpt_left_out_or_too_many_is_named(tmp_path: Path) -> None:
    whole = nanogpt()
    for name in whole["model"]:
        torch.save({**whole, "model": {k: v for k, v in whole["model"].items() if k != name}}, tmp_path / "ckpt.pt")
        if name == "lm_head.weight":
            assert GPT.from_pretrained(tmp_path).config.tie_word_embeddings  # nanoGPT's own: one matrix
            continue
        with pytest.raises(PretrainedError, match=f"{name.removeprefix('transformer.')}' is missing"):
            GPT.from_pretrained(tmp_path)
    for name in ("transformer.h.1.ln_1.weight", "transformer.h.0.ln_1.bias", "lm_head.bias", "transformer.x"):
        torch.save({**whole, "model": {**whole["model"], name: torch.ones(8)}}, tmp_path / "ckpt.pt")
        with pytest.raises(PretrainedError, match=f"unknown tensor '{name}'"):
            GPT.from_pretrained(tmp_path)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("value", [np.float64(1.5), np.float32(2), np.int64(3), np.arange(3)])
def test_numbers_of_numpy_are_named_with_their_key(value: Any, zipped: bool, protocol: int, tmp_path: Path) -> None:
    content = {"model": {"x": torch.zeros(1)}, "model_args": {"n_layer": 1}, "best_val_loss": value, "iter_num": 3}
    torch.save(content, tmp_path / "ckpt.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    with pytest.raises(PretrainedError, match=r"numpy under 'best_val_loss' .*save it again with float\(\)") as told:
        GPT.from_pretrained(tmp_path)
    assert "\n" not in str(told.value)


class Harm:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('executed')",)


class Model(torch.nn.Linear):
    pass


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"model": Harm()}, "nothing in it is executed"),
        (Model(2, 2), r"Model.*save its state_dict\(\) alone"),
        ({"model": Model(2, 2), "model_args": {}}, r"under 'model'.*save its state_dict\(\) alone"),
        ({"model": {"x": torch.zeros(2).to_sparse()}, "model_args": {}}, "x is sparse"),
        ({"model": {"x": torch.zeros(2, device="meta")}, "model_args": {}}, "x is without numbers"),
        ({"model": {"x": 3}, "model_args": {}}, "holds 'x', which is no tensor but int"),
        ({"model": [], "model_args": {}}, "holds no state dict"),
        ({"model_args": {}}, "no checkpoint of nanoGPT"),
        (torch.zeros(3), "no checkpoint of nanoGPT"),
    ],
)
def test_torch_files_that_hold_something_else(content: Any, words: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "ckpt.pt")
    with pytest.raises(PretrainedError, match=words) as told:
        GPT.from_pretrained(tmp_path)
    assert "\n" not in str(told.value)


def test_code_as_torchscript_and_plain_pickles(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), str(tmp_path / "ckpt.pt"))
    with pytest.raises(PretrainedError, match=r"TorchScript archive, which holds code; save the model's state_dict"):
        GPT.from_pretrained(tmp_path)
    (tmp_path / "ckpt.pt").write_bytes(pickle.dumps({"model": {}}))
    with pytest.raises(PretrainedError, match=r"ckpt\.pt"):
        GPT.from_pretrained(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_with_a_byte_changed_or_cut_short(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "ckpt.pt"
    torch.save(nanogpt(), path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    for number in range(80):
        at = int(generator.integers(0, 900))
        spoilt = whole[:at] if number % 2 else whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :]
        path.write_bytes(spoilt)
        try:
            GPT.from_pretrained(path)
        except PretrainedError as error:
            assert "ckpt.pt" in str(error) and "\n" not in str(error)


# --- several safetensors ---------------------------------------------------------------------------------------


@pytest.fixture
def parts(saved: Path, tmp_path: Path) -> Path:
    shutil.copy(saved / "config.json", tmp_path)
    state = load_file(saved / "model.safetensors")
    names = sorted(state)
    index = {}
    for number in (1, 2):
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({name: state[name] for name in names[number - 1 :: 2]}, tmp_path / file)
        index |= dict.fromkeys(names[number - 1 :: 2], file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return tmp_path


def test_an_index_and_its_files_agree(parts: Path) -> None:
    GPT.from_pretrained(parts)
    path = parts / "model.safetensors.index.json"
    index = json.loads(path.read_text())["weight_map"]
    first = min(index)
    file = parts / index[first]
    other = next(name for name in index.values() if name != index[first])

    def write(weight_map: Any) -> None:
        path.write_text(json.dumps({"weight_map": weight_map}))

    cases = [
        ({k: v for k, v in index.items() if k != first}, f"holds '{first}', but the index puts it in None"),
        ({**index, first: other}, rf"holds '{first}', but the index puts it in|which no file holds"),
        ({**index, "transformer.h.7.x": other}, r"the index lists 'transformer\.h\.7\.x', which no file holds"),
        ({**index, first: "model-00009-of-00009.safetensors"}, "lacks model-00009-of-00009"),
        ({**index, first: 3}, "has no weight_map"),
        ({}, "has no weight_map"),
        ([], "has no weight_map"),
    ]
    for weight_map, words in cases:
        write(weight_map)
        with pytest.raises(PretrainedError, match=words):
            GPT.from_pretrained(parts)
    write(index)
    save_file({**load_file(file), "transformer.extra": torch.ones(2)}, file)
    with pytest.raises(PretrainedError, match=r"holds 'transformer\.extra', but the index puts it in None"):
        GPT.from_pretrained(parts)
    path.unlink()
    with pytest.raises(PretrainedError, match=r"unknown tensor 'transformer\.extra'"):
        GPT.from_pretrained(parts)
    save_file({**load_file(parts / other), **load_file(file)}, parts / other)
    with pytest.raises(PretrainedError, match="a second time"):
        GPT.from_pretrained(parts)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64, torch.bool, torch.float8_e4m3fn,
                                   torch.float8_e5m2, torch.complex64])  # fmt: skip
def test_odd_numbers_are_refused_by_the_tensors_name(dtype: torch.dtype, saved: Path, tmp_path: Path) -> None:
    shutil.copy(saved / "config.json", tmp_path)
    state = load_file(saved / "model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"
    save_file({**state, name: state[name].to(dtype)}, tmp_path / "model.safetensors")
    with pytest.raises(PretrainedError, match=rf"{name} is .*: quantised weights are not read"):
        GPT.from_pretrained(tmp_path)
