"""One model on several devices under torchrun: each takes its rows of the batch, gradients are averaged,
rank 0 writes.

    torchrun --standalone --nproc-per-node 2 -m lab.cli train --corpus stories --run runs/a

The batch is the same as in one process, so the losses are too (to rounding).
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

# Others wait in the next collective while rank 0 evaluates, or while a run is paused.
PATIENCE = datetime.timedelta(days=7)


@dataclass(frozen=True)
class World:
    """This process among those that train one model together; of size 1 outside torchrun."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def main(self) -> bool:
        """Whether this process writes, evaluates and listens to requests."""
        return self.rank == 0

    def rows(self, batch: np.ndarray) -> np.ndarray:
        """This process' share of a batch [batch, ...]. Raises ValueError where it does not divide."""
        if len(batch) % self.size:
            raise ValueError(
                f"batch_size {len(batch)} does not divide among {self.size} processes; use a multiple of {self.size}"
            )
        share = len(batch) // self.size
        return batch[self.rank * share : (self.rank + 1) * share]

    def threads(self, wanted: int) -> int:
        """This process' share of `wanted` threads, and no more than there are cores: waiting threads spin."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(wanted, cores) // self.size)

    def device(self, device: torch.device) -> torch.device:
        import torch

        return torch.device("cuda", self.local_rank) if device.type == "cuda" and self.size > 1 else device

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The module whose forward pass is trained: the model, or DistributedDataParallel around it."""
        if self.size == 1:
            return model
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)

    def total(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Each value summed over all processes; every process gets the same."""
        if self.size == 1:
            return list(values)
        import torch
        import torch.distributed as dist

        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor.tolist()]

    def wait(self) -> None:
        """Go on when every process is here."""
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()


@contextmanager
def world(device: str) -> Iterator[World]:
    """The world torchrun describes in the environment, joined for the length of a `with`; a world of one elsewhere."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield World()
        return
    import torch
    import torch.distributed as dist

    here = World(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))
    cuda = device in ("auto", "cuda") and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(here.local_rank)
    options: dict[str, Any] = {"device_id": torch.device("cuda", here.local_rank)} if cuda else {}
    dist.init_process_group("nccl" if cuda else "gloo", timeout=PATIENCE, **options)
    try:
        yield here
    finally:
        dist.destroy_process_group()
