"""What a package exports is what dir() lists, and every name of it is there."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = (
    "model",
    "model.pretrained",
    "lab",
    "lab.analysis",
    "lab.corpora",
    "lab.plots",
    "lab.runs",
    "lab.studies",
    "lab.tokenizers",
    "lab.training",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_what_is_exported(package: str) -> None:
    module = import_module(package)
    assert module.__all__
    assert set(module.__all__) <= set(dir(module))
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert not hasattr(module, "no_such_name")


@pytest.mark.parametrize("package", ["model", "lab", "lab.training"])
def test_looking_at_the_names_loads_nothing_heavy(package: str) -> None:
    """In an interpreter of its own, where nothing else has asked for torch."""
    words = f"import sys, {package} as p; print(set(p.__all__) <= set(dir(p)), 'torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "True False"
