"""Files of other people are data: a pickle that would act when it is opened is refused by name, and does not act."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from apps.elsewhere import Asked, bring_in
from apps.widgets.corpus_choice import ENCODINGS, UnreadableText, decode
from lab.models import open_model
from lab.runs import list_runs
from model.pretrained import PretrainedError
from tests.apps.opening import checked, open_page, said
from tests.model.references import reference

ARGS = {"n_layer": 1, "n_head": 2, "n_embd": 8, "block_size": 4, "vocab_size": 5}


class Harm:
    """Unpickled, it makes the folder `mark`."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "executed"


@pytest.fixture
def harm(mark: Path) -> bytes:
    """A pickle that acts, as bytes; that it does is shown first."""
    acts = pickle.dumps(Harm(mark))
    pickle.loads(acts)
    mark.rmdir()  # it had been made
    return acts


def saved(path: Path, mark: Path) -> None:
    torch.save({"model": {"x": torch.zeros(1)}, "model_args": ARGS, "config": Harm(mark)}, path)


def saved_the_old_way(path: Path, mark: Path) -> None:
    torch.save({"model": {}, "model_args": Harm(mark)}, path, _use_new_zipfile_serialization=False)


def pickled(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps({"model": Harm(mark), "model_args": ARGS}, protocol=2))


@pytest.mark.parametrize("write", [saved, saved_the_old_way, pickled])
@pytest.mark.parametrize("name", ["ckpt.pt", "pytorch_model.bin"])
def test_a_checkpoint_that_would_act(
    name: str, write: Callable[[Path, Path], None], tmp_path: Path, mark: Path, harm: bytes, runs_folder: Path
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    if name.endswith(".bin"):
        reference("gpt2").config.save_pretrained(folder)
    write(folder / name, mark)
    (folder / "meta.pkl").write_bytes(harm)  # nanoGPT keeps its characters in such a file; it is not even opened
    for path in (folder, folder / name) if name == "ckpt.pt" else (folder,):
        with pytest.raises(PretrainedError, match=f"{name} is not read: it (holds more than weights|is no file)"):
            open_model(path)
    with pytest.raises(PretrainedError, match=f"{name} is not read"):
        bring_in(Asked("theirs", str(folder), on_hub=False), lambda *_: None, lambda *_: None)
    assert not mark.exists() and list_runs() == []


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model"])
def test_a_tokenizer_that_would_act(name: str, tmp_path: Path, mark: Path, harm: bytes) -> None:
    folder = tmp_path / "theirs"
    reference("gpt2").save_pretrained(folder)
    (folder / name).write_bytes(harm)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        open_model(folder)
    assert not mark.exists()


def test_a_tokenizer_that_brings_its_own_code(tmp_path: Path, mark: Path) -> None:
    folder = tmp_path / "theirs"
    reference("gpt2").save_pretrained(folder)
    (folder / "tokenizer.model").write_bytes(b"\x0a\x03\x0a\x01a")
    (folder / "theirs.py").write_text(f"import os\nos.mkdir({str(mark)!r})\nclass Theirs: pass\n")
    told = '{"tokenizer_class": "Theirs", "auto_map": {"AutoTokenizer": ["theirs.Theirs", null]}}'
    (folder / "tokenizer_config.json").write_text(told)
    with contextlib.suppress(PretrainedError):  # refused, or read by the class of the model's own kind
        open_model(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["tokenizer.json", "checkpoints/step_000012/model.safetensors", "config.json"])
def test_a_run_folder_that_would_act(name: str, runs: Path, mark: Path, harm: bytes) -> None:
    """Runs are shared as folders; what a page shows of this one is a sentence."""
    shutil.copytree(runs / "tiny", runs / "shared")
    assert (runs / "shared" / name).is_file()
    (runs / "shared" / name).write_bytes(harm)
    with pytest.raises((ValueError, OSError)):
        open_model(runs / "shared")
    at = open_page("lens", run="shared", step="12", lang="en")
    assert "shared" in said(at, "error", "warning", "info")
    assert not mark.exists()


def test_an_upload_that_would_act(mark: Path, harm: bytes, runs_folder: Path) -> None:
    for encoding in ENCODINGS:
        with pytest.raises(UnreadableText, match=r"not plain text|is not .* text"):
            decode(harm, encoding)
    at = open_page("train", lang="en")
    at.get_by_key("corpus_source").set_value("upload")
    checked(at.run())
    at.file_uploader[0].upload("notes.txt", harm)
    checked(at.run())
    assert "The file is not plain text" in said(at)
    assert not mark.exists() and not (runs_folder / ".corpora").exists()
