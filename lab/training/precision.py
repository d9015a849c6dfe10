"""Which numbers a run computes in. Weights, moments and evaluation are fp32 always; bf16 is autocast of the
products.

`auto` follows a fixed rule, not a stopwatch: two runs of one seed on one machine must not differ because the
machine was busy.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING

from lab.training.config import TrainingConfig

if TYPE_CHECKING:
    import torch

    from model.config import GPTConfig

# Below this width the casts cost more than the faster products save. One core with AMX, processor time of a step:
# d 128 94 ms against 104 in fp32 (fast) and 47 against 73 (nanogpt), d 256 733 against 1218.
BF16_MIN_WIDTH = 128


@cache
def cpu_flags() -> frozenset[str]:
    """The instruction sets that /proc/cpuinfo names; empty where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            line = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def native_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bf16 matrices itself. Emulated bf16 is slower than fp32."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        return bool(cpu_flags() & {"amx_bf16", "avx512_bf16", "bf16"})
    return False


def resolve_device(name: str) -> torch.device:
    """The device to train on. Raises ValueError for one this machine does not have."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but this machine has no CUDA device that torch can use; write cpu or auto")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device is 'mps', but this machine has no Metal device that torch can use; write cpu or auto")
    return torch.device(name)


def resolve_precision(training: TrainingConfig, model: GPTConfig, device: torch.device) -> str:
    """ "fp32" or "bf16". Raises ValueError where bf16 is asked for and the hardware would only emulate it."""
    native = native_bf16(device)
    if training.precision == "auto":
        wide = device.type == "cuda" or model.d_model >= BF16_MIN_WIDTH
        return "bf16" if native and wide else "fp32"
    if training.precision == "bf16" and not native:
        raise ValueError(
            f"precision is 'bf16', but this {device.type} has no bf16 products of its own (amx_bf16, avx512_bf16, "
            "or CUDA capability 8.0) and would be slower than fp32; write fp32 or auto"
        )
    return training.precision


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """The context of a training forward pass."""
    import torch

    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
