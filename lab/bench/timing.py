"""Timing two sides against each other, and the peak of memory that a call adds."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

Result = dict[str, Any]


def machine(threads: int) -> Result:
    """What a figure was measured on."""
    import platform
    from datetime import UTC, datetime

    import torch

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": threads,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


class Seconds(NamedTuple):
    """By the clock, and of this process's CPU (all threads)."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Comparison:
    """Seconds a round of ours and of the reference, round by round: by the clock, and of the process's own CPU."""

    ours: tuple[float, ...]
    reference: tuple[float, ...]
    ours_cpu: tuple[float, ...] = ()
    reference_cpu: tuple[float, ...] = ()

    @property
    def time_ratio(self) -> float:
        """Ours over the reference: below 1 is faster."""
        return statistics.median(a / b for a, b in zip(self.ours, self.reference, strict=True))

    @property
    def cpu_time_ratio(self) -> float | None:
        """The same of CPU time, which waiting for a busy processor does not lengthen; None where not measured."""
        if not self.ours_cpu:
            return None
        return statistics.median(a / b for a, b in zip(self.ours_cpu, self.reference_cpu, strict=True))

    def as_result(self) -> Result:
        ratios = [a / b for a, b in zip(self.ours, self.reference, strict=True)]
        return {
            "time_ratio": round(self.time_ratio, 4),
            "cpu_time_ratio": None if self.cpu_time_ratio is None else round(self.cpu_time_ratio, 4),
            "speedup": round(1 / self.time_ratio, 3),
            "ratio_low": round(min(ratios), 4),
            "ratio_high": round(max(ratios), 4),
            "rounds": len(ratios),
            "seconds": round(statistics.median(self.ours), 6),
            "reference_seconds": round(statistics.median(self.reference), 6),
        }


def compare(ours: Callable[[], Any], reference: Callable[[], Any], *, rounds: int, repeats: int = 1) -> Comparison:
    """Time both in turns. ``repeats`` calls make a round; the sides take turns at going first."""
    times: dict[str, list[Seconds]] = {"ours": [], "reference": []}
    sides = (("ours", ours), ("reference", reference))
    for _, call in sides:  # warm up allocators and kernels
        call()
    for index in range(rounds):
        for name, call in sides if index % 2 == 0 else sides[::-1]:
            times[name].append(seconds_of(call, repeats))
    return comparison(times["ours"], times["reference"])


def comparison(ours: Sequence[Seconds], reference: Sequence[Seconds]) -> Comparison:
    """Of the two sides' rounds, in order."""
    return Comparison(
        tuple(one.wall for one in ours),
        tuple(one.wall for one in reference),
        tuple(one.cpu for one in ours),
        tuple(one.cpu for one in reference),
    )


def agree(ours: torch.Tensor, reference: torch.Tensor, what: str, tolerance: float = 1e-4) -> float:
    """The largest difference; an error when the two sides do not compute the same thing."""
    difference = (ours.float() - reference.float()).abs().max().item()
    if not difference <= tolerance:
        raise RuntimeError(f"{what}: the two sides differ by {difference:.2e}; a ratio of their times means nothing.")
    return difference


def seconds_of(call: Callable[[], Any], repeats: int = 1) -> Seconds:
    """Seconds a call, averaged over ``repeats`` of them."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    return Seconds((time.perf_counter() - wall) / repeats, (time.process_time() - cpu) / repeats)


def reset_peak() -> int | None:
    """Forget the peak of resident memory; returns the bytes resident now, None without Linux' /proc."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return None
    return _memory("VmRSS")


def peak_bytes() -> int:
    return _memory("VmHWM")


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field))) * 1024
