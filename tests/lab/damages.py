"""Ways in which a run's folder can be damaged, for the tests of the command line and of the explorer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Damage:
    """What is done to a run's folder; of_status: whether its status.json cannot be made sense of afterwards."""

    make: Callable[[Path], object]
    of_status: bool = False


def _status(**changes: Any) -> Damage:
    def make(run: Path) -> None:
        path = run / "status.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return Damage(make, of_status=True)


def _text(name: str, text: str | bytes, *, of_status: bool = False) -> Damage:
    data = text.encode() if isinstance(text, str) else text

    def make(run: Path) -> None:
        (run / name).write_bytes(data)

    return Damage(make, of_status)


def _fifo(name: str) -> Damage:
    def make(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return Damage(make, of_status=name == "status.json")


def _folder(name: str) -> Damage:
    def make(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()

    return Damage(make, of_status=name == "status.json")


DEEP, DIGITS = "[" * 200_000, '{"step": ' + "9" * 5000 + "}"
WRONG: dict[str, Any] = {
    "step": ["abc", [1], {}, -1, 1.5, 1e300, True, float("nan"), float("inf"), 2**70, 10**400],
    "max_steps": ["abc", [1], -5, float("nan"), float("inf"), 10**400],
    "heartbeat": ["x", [1], float("inf"), -1.0, {}, 10**400, -(10**400)],
    "state": ["weird", 3, ["done"], {}],
    "error": [3, ["x"]],
    "pid": ["x", [1], -3, 1.5, 10**400],
    "process": [3],
    "host": [[]],
}
TEXTS: dict[str, str | bytes] = {
    "deep": DEEP,
    "digits": DIGITS,
    "list": "[]",
    "number": "3",
    "cut": '{"a": ',
    "empty": "",
    "bytes": b"\xff\xfe\x00",
}
LINES: dict[str, str | bytes] = {
    "deep": DEEP,
    "digits": DIGITS,
    "types": '{"step": "x", "val_loss": "y", "prompt": 3, "text": [], "event": 4, "induction": "z"}\n',
    "lists": '{"step": [1], "val_loss": [2], "train_loss": {}, "text": {}, "event": []}\n',
    "nested": '{"step": 1, "val_loss": "2.5", "text": 7, "prompt": [], "induction": [["a"]], "grad_norm": {}}\n',
    "huge": '{"step": 99999999999999999999999, "val_loss": 1e999, "induction": [[1e999]]}\n',
    "beyond a float": f'{{"step": 1{"0" * 400}, "val_loss": 1{"0" * 400}, "induction": 1{"0" * 400}}}\n',
    "negative": '{"step": -5, "val_loss": 1.0, "text": "a", "prompt": "b", "induction": 0.5}\n',
    "no step": '{"val_loss": 1.0, "text": "a", "event": "imported"}\n',
    "bytes": b"\xff\xfe\x00\n",
    "empty": "",
}
CONFIGS: dict[str, Any] = {
    "empty": {},
    "lists": {"model": [], "data": [], "training": []},
    "texts": {"model": "a", "data": "b", "training": "c"},
    "numbers": {
        "model": {"n_layers": "x", "d_model": []},
        "data": {"corpus": 3},
        "training": {"steps": "many", "threads": []},
    },
    "nulls": {"model": None, "data": None, "training": None},
}
METRICS = (
    "tokens", "seconds", "wall_seconds", "train_loss", "val_loss", "val_bpb", "val_task_loss", "val_accuracy", "lr",
    "muon_lr", "grad_norm", "clipped",
)  # fmt: skip
LINE_FILES = ("metrics.jsonl", "samples.jsonl", "dynamics.jsonl", "events.jsonl")
STATUS = "status.json"
DAMAGES: dict[str, Damage] = {
    **{
        f"status {name} {str(value)[:12]}": _status(**{"state": "running", name: value})
        for name, values in WRONG.items()
        for value in values
    },
    **{
        f"{file} {kind}": _text(file, text, of_status=file == STATUS)
        for file in (STATUS, "config.json", "best.json", "provenance.json")
        for kind, text in TEXTS.items()
    },
    **{
        f"best.json {name}": _text("best.json", json.dumps({"step": 10, "val_loss": 2.0, name: 10**400}))
        for name in ("step", "val_loss")
    },
    **{
        f"metrics.jsonl {name} beyond a float": _text("metrics.jsonl", json.dumps({"step": 11, name: 10**400}))
        for name in METRICS
    },
    "config steps beyond a float": _text("config.json", json.dumps({"training": {"steps": 10**400}})),
    **{f"{file} {kind}": _text(file, text) for file in LINE_FILES for kind, text in LINES.items()},
    **{f"config {kind}": _text("config.json", json.dumps(value)) for kind, value in CONFIGS.items()},
    **{f"{file} fifo": _fifo(file) for file in (STATUS, *LINE_FILES)},
    **{f"{file} folder": _folder(file) for file in (STATUS, "best.json", *LINE_FILES)},
}
"""Name -> what is done."""


def as_nobody(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`residlab words` by a process whom permissions bind, root too; skipped where that cannot be arranged."""
    bound: list[str] = []
    if os.name != "posix":
        pytest.skip("needs POSIX permissions")
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root reads everything, and there is no setpriv to give that up")
        bound = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    environment = {**os.environ, "RESIDLAB_RUNS": str(root), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*bound, sys.executable, "-m", "lab.cli", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if done.stderr.startswith("setpriv:"):
        pytest.skip(f"root cannot give up reading everything here: {done.stderr.strip()}")
    return done
