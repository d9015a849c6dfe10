"""Train a GPT: configurations and recipes (torch-free), and the trainer itself, loaded when first used."""

import importlib
from typing import TYPE_CHECKING, Any

from lab.training.config import SCHEMA_VERSION, DataConfig, RunConfig, TrainingConfig
from lab.training.recipe import RECIPES, Recipe, build_run_config

if TYPE_CHECKING:
    from lab.training.data import TrainingData, prepare_data
    from lab.training.run import resume, train

_HOME = {
    "TrainingData": "lab.training.data",
    "prepare_data": "lab.training.data",
    "resume": "lab.training.run",
    "train": "lab.training.run",
}

__all__ = [
    "RECIPES",
    "SCHEMA_VERSION",
    "DataConfig",
    "Recipe",
    "RunConfig",
    "TrainingConfig",
    "TrainingData",
    "build_run_config",
    "prepare_data",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
