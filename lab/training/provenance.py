"""Where a run came from: code, packages, hardware, data and command line, enough to ask "would it come out again?"."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.training.precision import cpu_flags

if TYPE_CHECKING:
    import torch

    from lab.training.data import TrainingData

PACKAGES = ("residlab", "torch", "transformer-lens", "numpy", "safetensors", "tokenizers")
BF16_FLAGS = ("amx_bf16", "avx512_bf16", "avx2", "avx512f")


def provenance(data: TrainingData, device: torch.device, threads: int, world_size: int) -> dict[str, Any]:
    """The record of a run's start, ready for JSON. Anything that cannot be found out is None."""
    return {
        **origin(),
        "hardware": _hardware(device),
        "threads": threads,
        "processes": world_size,
        "corpus": {
            "name": data.corpus.name,
            "title": data.corpus.title,
            "licence": data.corpus.licence,
            "source": data.corpus.source,
            "sha256": data.corpus.sha256,
            "train_tokens": len(data.train),
            "validation_tokens": len(data.validation),
        },
        "tokenizer": {
            "kind": data.tokenizer.kind,
            "vocab_size": data.tokenizer.vocab_size,
            "sha256": data.tokenizer.sha256,
        },
    }


def origin() -> dict[str, Any]:
    """The part that does not depend on the data: time, command line, commit, versions."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "argv": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "git": _git(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """Commit of the checkout this code runs from and whether it was changed; None for an installed copy."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str | None:
        try:
            # Without locks: a training that is killed while git refreshes its index would leave the lock behind, and
            # the checkout could not be committed to any more.
            done = subprocess.run(
                ["git", "--no-optional-locks", *words],
                cwd=here.parent,
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", here.name) is None:
        return None  # a copy that happens to lie in somebody's repository is not that repository's code
    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


def _hardware(device: torch.device) -> dict[str, Any]:
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    flags = cpu_flags()
    return {
        "device": device.type,
        "gpu": name,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "cpu_features": [flag for flag in BF16_FLAGS if flag in flags],
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
