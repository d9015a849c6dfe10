"""Models that were trained elsewhere: which ones a browser may ask for, what they take, and bringing one in as a run.

A model is brought in once and is a run from then on (one checkpoint, no training), so every page, link and command
that knows runs knows it.

What a browser may name: a folder below `runs/models`, a folder that the server's owner lists in RESIDLAB_MODELS (each
one a model, or a folder of models), or a name on the hub; never a path. What is typed is looked up among those names
and is not joined to any path. The hub is asked as huggingface_hub is set up: HF_HUB_OFFLINE=1 leaves only its cache.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.i18n import t
from lab.runs import Run, fresh_run_path, list_runs, runs_root
from lab.runs.folder import models_folder

if TYPE_CHECKING:
    from model import GPT

VARIABLE = "RESIDLAB_MODELS"
WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "*.gguf", "ckpt.pt")
ARRIVING = ".arriving"  # below the runs root, hidden from the list of runs, until a model is whole
_opening = threading.Lock()

Progress = Callable[[int, int], None]


class Refused(ValueError):
    """A model that cannot be brought in; the sentence is in the reader's language."""


@dataclass(frozen=True)
class Asked:
    """A model to bring in: what the reader calls it, and what `from_pretrained` takes (a folder, or a hub's name)."""

    name: str
    source: str
    on_hub: bool


@dataclass(frozen=True)
class Needs:
    """What a model takes: parameters (None where only its weights would tell), bytes of memory and of disk."""

    kind: str
    parameters: int | None
    bytes: int
    memory_free: int
    disk_free: int

    @property
    def fits(self) -> bool:
        """Whether there is room for the weights now; an answer of the moment."""
        return self.bytes < self.memory_free and self.bytes < self.disk_free


def offered() -> dict[str, Path]:
    """The folders a browser may name, by that name."""
    roots = [models_folder(), *(Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part)]
    found: dict[str, Path] = {}
    for root in roots:
        if not root.is_dir():
            continue
        inside = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        for folder in [root] if _is_model(root) else inside:
            name = folder.name if folder.name not in found else f"{folder.parent.name}/{folder.name}"
            found.setdefault(name, folder)
    return found


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() or any(next(folder.glob(form), None) for form in WEIGHT_FILES)


def asked_for(text: str) -> Asked:
    """What the typed text names. Raises Refused for a path, and for anything that could be no name on the hub."""
    from model.pretrained.sources import is_hub_name

    name = text.strip()
    folders = offered()
    if name in folders:
        return Asked(name, str(folders[name]), on_hub=False)
    if not is_hub_name(name) or os.path.lexists(os.path.expanduser(name)):
        raise Refused(t("elsewhere.not_offered", name=name[:80], folder=str(models_folder()), variable=VARIABLE))
    return Asked(name, name, on_hub=True)


def needs(asked: Asked) -> Needs:
    """What bringing it in takes, from its config alone. Raises Refused or PretrainedError."""
    import psutil

    from lab.models import describe_model

    described = describe_model(asked.source)
    if described is None:
        kind, parameters, size = t("elsewhere.kind_file"), None, _weights_size(Path(asked.source))
    else:
        kind, parameters, size = described.model_type, described.parameters, described.bytes
    root = runs_root()
    root.mkdir(parents=True, exist_ok=True)
    return Needs(kind, parameters, size, int(psutil.virtual_memory().available), shutil.disk_usage(root).free)


def _weights_size(folder: Path) -> int:
    """Bytes of the weights' files; a GGUF file's grow when they are read, by up to eight times."""
    return sum(
        path.stat().st_size * (8 if path.suffix == ".gguf" else 1) for f in WEIGHT_FILES for path in folder.glob(f)
    )


def brought_in(asked: Asked) -> Run | None:
    """The run that this model already is, if it is one."""
    return next((run for run in list_runs() if came_from(run) == _note(asked)), None)


def came_from(run: Run) -> str | None:
    """What a run that was brought in notes as its source; None for a run that was trained here."""
    return next((str(e.get("corpus")) for e in run.events()[:1] if e.get("event") == "imported"), None)


def _note(asked: Asked) -> str:
    return f"weights of {asked.name}"


def bring_in(asked: Asked, told: Progress, fetched: Progress) -> Run:
    """Load the model and keep it as a run; `told` hears (tensors read, all of them), `fetched` the download's bytes.

    Nothing is left behind where it fails. Raises Refused, PretrainedError, OSError or MemoryError.
    """
    if not _opening.acquire(blocking=False):
        raise Refused(t("elsewhere.busy"))
    try:
        from lab.models import require_finite, save_as_run
        from model.pretrained import from_pretrained

        there = brought_in(asked)
        if there is not None:
            return there
        model = from_pretrained(asked.source, on_progress=told, on_download=fetched)
        require_finite(model, Path(asked.name))
        _with_tokenizer(model, asked)
        stem = re.sub(r"[^\w.\-]", "-", asked.name.rpartition("/")[2]).strip(".-_") or "model"
        aside = runs_root() / ARRIVING / f"{stem}-{os.getpid()}"
        try:
            shutil.rmtree(aside, ignore_errors=True)
            save_as_run(model, aside, corpus=_note(asked))
            home = fresh_run_path(stem)
            os.rename(aside, home)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return Run(home)
    finally:
        _opening.release()


def _with_tokenizer(model: GPT, asked: Asked) -> None:
    """Give a model without a tokenizer one whose tokens are the ids themselves; refuse one that is too large."""
    from model.pretrained.tokenizer import TokenListTokenizer

    tokenizer: Any = model.tokenizer
    if tokenizer is None:
        model.tokenizer = TokenListTokenizer([str(i) for i in range(model.config.d_vocab)])
    elif tokenizer.vocab_size > model.config.d_vocab:
        raise Refused(
            t("elsewhere.tokenizer_too_large", name=asked.name, n=tokenizer.vocab_size, most=model.config.d_vocab)
        )
