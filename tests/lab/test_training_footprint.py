"""What a training takes of the machine's memory is told before a folder is made."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

from lab import Run
from lab.training import build_run_config, train
from lab.training.footprint import require_memory

QUICK = {"device": "cpu", "sample_every": 0}
TINY = {"d_model": 16, "n_layers": 1, "n_heads": 2, "n_ctx": 8}


@pytest.mark.parametrize("optimizer", ["fast", "textbook"])
def test_what_cannot_fit_is_refused_and_what_hardly_fits_is_told(optimizer: str) -> None:
    config = build_run_config("brackets", recipe=optimizer, training_overrides=QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_memory(config)
    with pytest.raises(ValueError, match=r"parameters takes .* alone; this machine has"):
        require_memory(config, total=2**20)
    with pytest.warns(UserWarning, match="of memory a step"):
        require_memory(config.replace(training=config.training.replace(batch_size=10**9)))


def test_no_folder_is_made_for_a_model_that_cannot_fit(tmp_path: Path) -> None:
    config = build_run_config(
        "brackets", model_overrides={"d_model": 65536, "n_layers": 200, "n_heads": 64}, training_overrides=QUICK
    )
    with pytest.raises(ValueError, match="this machine has"):
        train(config, run=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_run_that_is_moved_while_it_trains_is_said_to_be(tmp_path: Path) -> None:
    config = build_run_config("brackets", steps=6, model_overrides=TINY, training_overrides={**QUICK, "log_every": 1})
    run = Run(tmp_path / "a")
    with pytest.raises(OSError, match="was moved, renamed or deleted while it was being trained"):
        train(config, run=run, on_step=lambda row: shutil.move(run.path, tmp_path / "b") if row["step"] == 3 else None)
    assert Run(tmp_path / "b").checkpoints()
