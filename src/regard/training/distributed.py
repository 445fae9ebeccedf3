"""One process or many: the world that training runs in.

`torchrun … -m regard train RECIPE` starts as many processes as it is told to and tells each its
rank by environment variables. Every process runs the same lines: reads its share of each batch,
computes its part of the gradient, and takes part in every sum. Alone, all sums are what is given.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.machine import best_device


@dataclass(frozen=True)
class World:
    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def leads(self) -> bool:
        """Does this process write and speak for all?"""
        return self.rank == 0

    def sums(self, values: Sequence[float]) -> list[float]:
        """Each value summed over all processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        if self.device.type == "cuda":
            total = total.to(self.device)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()

    def spread(self, module: nn.Module, sharded: bool) -> nn.Module:
        """The module, with gradients averaged over all processes after each backward pass."""
        if self.size == 1:
            return module
        ids = [self.device.index or 0] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids)


@contextmanager
def world() -> Iterator[World]:
    """The world that torchrun made for this process, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World(device=best_device())
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        yield World(dist.get_rank(), size, device)
    finally:
        dist.destroy_process_group()
