"""torchrun on one machine: two processes, one model, the losses of one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lab.runs import Run
from lab.training import build_run_config, train
from lab.training.distributed import World

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, pathlib, sys
import lab.training.optimizers
from lab.training import RunConfig, train
lab.training.optimizers.native_bf16 = lambda device: False
config = RunConfig.from_dict(json.loads(pathlib.Path(sys.argv[1]).read_text()))
train(config, run=sys.argv[2])
"""


@pytest.mark.parametrize("recipe", ["nanogpt", "fast"])
def test_two_processes_lose_what_one_loses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    from lab.runs import write_json

    text = tmp_path / "text.txt"
    text.write_text(" ".join(np.random.default_rng(0).choice(["the", "quick", "brown", "fox", "lazy", "dog"], 800)))
    config = build_run_config(
        str(text),
        "nano",
        recipe,
        steps=20,
        model_overrides=dict(n_ctx=8, d_model=16, n_layers=2, n_heads=2),
        training_overrides=dict(batch_size=6, log_every=1, eval_every=10, checkpoint_every=10, sample_tokens=4),
    )
    # Muon in fp32 here: bf16 turns a gradient's last bit, which differs by the order of its sum, into 1e-2 of an update
    monkeypatch.setattr("lab.training.optimizers.native_bf16", lambda device: False)
    one = train(config, run=tmp_path / "one")
    write_json(tmp_path / "config.json", config.to_dict())
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, str(script), str(tmp_path / "config.json"), str(tmp_path / "two")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    two = Run(tmp_path / "two")
    assert two.status().state == "done" and two.provenance["processes"] == 2
    a, b = ([row["train_loss"] for row in run.metrics()[1:]] for run in (one, two))
    assert len(a) == len(b) == 20, "one process writes, once"
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert two.metrics()[-1]["val_loss"] == pytest.approx(one.metrics()[-1]["val_loss"], abs=1e-5)
    assert one.checkpoints() == two.checkpoints()


def test_rows_of_a_batch() -> None:
    batch = np.arange(12).reshape(6, 2)
    shares = [World(rank, 3).rows(batch) for rank in range(3)]
    assert np.concatenate(shares).tolist() == batch.tolist()
    assert World().rows(batch).tolist() == batch.tolist() and World().main and not World(1, 3).main
    with pytest.raises(ValueError, match="batch_size 6 does not divide among 4 processes"):
        World(0, 4).rows(batch)
