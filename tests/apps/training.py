"""Small runs of several kinds, trained in seconds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

KINDS = ("tiny", "postnorm", "single", "running", "diverged")
MARKUP = "<b>x</b> </script> $a$ :red[b] & <br>"
SENTENCE = "the cat sat on the mat. lily gave the ball to tom. "


def text() -> str:
    """A small corpus whose alphabet covers the prompts of the tests, markup included, but no emoji and no Chinese."""
    return (SENTENCE * 4 + MARKUP + "\n") * 12


def _train(folder: Path, name: str, corpus: Path, **model: Any) -> None:
    from lab.training import build_run_config, train

    training = {
        "batch_size": 4, "eval_every": 6, "checkpoint_every": 6, "checkpoint_early": False, "sample_every": 6,
        "sample_tokens": 8, "log_every": 1, "dynamics": False, "precision": "fp32", **model.pop("training", {}),
    }  # fmt: skip
    shape = {"n_layers": 2, "d_model": 16, "n_heads": 2, "n_ctx": 48, **model}
    config = build_run_config(
        str(corpus), "nano", "textbook", steps=12, tokenizer="char", model_overrides=shape, training_overrides=training
    )
    train(config, run=folder / name)


def train_all(home: Path) -> Path:
    """A runs folder under `home` with a run of each kind; "running" has this process as its trainer."""
    from lab.runs import Run

    folder, corpus = home / "runs", home / "text.txt"
    folder.mkdir()
    corpus.write_text(text(), encoding="utf-8")
    _train(folder, "diverged", corpus, training={"lr": 1e6, "grad_clip": None, "warmup_steps": 0, "optimizer": "adamw"})
    _train(folder, "single", corpus, n_layers=1, n_heads=1, d_model=8)
    _train(folder, "postnorm", corpus, norm_placement="post")
    _train(folder, "tiny", corpus)
    shutil.copytree(folder / "tiny", folder / "running")
    Run(folder / "running").write_status("running", 7, 12)
    return folder
