"""The instrumented GPT: a small readable transformer whose every activation can be watched and changed.

Names are resolved on first use, so that ``from model import GPTConfig`` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.accounting import count_parameters, parameter_ledger, shape_flow
    from model.config import PRESETS, ConfigError, GPTConfig, RotaryScaling
    from model.gpt import GPT

_HOME = {
    "GPT": "model.gpt",
    "GPTConfig": "model.config",
    "ConfigError": "model.config",
    "RotaryScaling": "model.config",
    "PRESETS": "model.config",
    "count_parameters": "model.accounting",
    "parameter_ledger": "model.accounting",
    "shape_flow": "model.accounting",
}

__all__ = [
    "GPT",
    "PRESETS",
    "ConfigError",
    "GPTConfig",
    "RotaryScaling",
    "count_parameters",
    "parameter_ledger",
    "shape_flow",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'model' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
