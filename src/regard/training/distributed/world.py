"""One process or many: the world that training runs in.

`torchrun … -m regard train RECIPE` starts as many processes as it is told to and tells each its
rank by environment variables. Every process runs the same lines: reads its share of each batch,
computes its part of the gradient, and takes part in every sum. Alone, all sums are what is given.

What ends one process ends all. An error is raised where it happens and the others leave without a
word; where several have the same to say, one says it.
"""

import os
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from regard.errors import Interrupted, RegardError, TrainingError
from regard.hardware import best_device
from regard.training.distributed.fsdp import shard

# Others wait while the leading process prepares the data or judges the finished model.
PATIENCE = timedelta(days=7)

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    control: dist.ProcessGroup | None = None  # for words, and for whoever may have to wait long

    @property
    def is_main(self) -> bool:
        """Does this process write and speak for all?"""
        return self.rank == 0

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        """Each value summed over all processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def all_gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value, group=self.control)
        return values

    def broadcast(self, value: T) -> T:
        """What the leading process says it is."""
        values: list[Any] = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, src=0, group=self.control)
        answer: T = values[0]
        return answer

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """What fails in one process within fails in all: that one says why, the others leave.

        Nothing within may wait for a process that has failed.
        """
        try:
            yield
        except Exception:
            self.all_gather(True)
            raise
        if any(self.all_gather(False)):
            raise SystemExit(1)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The leading process goes first; the others then find done what it did."""
        for leaders_turn in (True, False):
            with self.fail_together():
                if self.is_main == leaders_turn:
                    yield

    def wrap(self, module: nn.Module, sharded: bool, apart: Collection[str] = ()) -> nn.Module:
        """The module, with gradients averaged over all processes after each backward pass.

        `apart` are parameters that only one process has, by name.
        """
        if self.size == 1:
            return module
        if sharded:
            shard(module, self.device, self.size)
            return module
        shared = (p for name, p in module.named_parameters() if name not in apart)
        if not any(parameter.requires_grad for parameter in shared):
            return module
        leave_out = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        leave_out(module, list(apart))  # type: ignore[no-untyped-call]
        ids = [self.device.index or 0] if self.device.type == "cuda" else None
        # Buffers are tables that never change; gradients stay where they were summed.
        return DistributedDataParallel(
            module, device_ids=ids, forward_sync_buffers=False, gradient_as_bucket_view=True
        )


@contextmanager
def distributed_world() -> Iterator[World]:
    """The world that torchrun made for this process, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World(device=best_device())
        return
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    store, rank, size = next(rendezvous("env://"))
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size)
    control = dist.new_group(backend="gloo", timeout=PATIENCE)
    with _one_voice(store), _listening():
        yield World(rank, size, device, control)
    # Not after an error: it would wait for processes that may be gone.
    dist.destroy_process_group()


@contextmanager
def _listening() -> Iterator[None]:
    """A process that is gone shows in the first exchange that it is missing from."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        # torchrun, which has seen it too, shall not cut the sentence off.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TrainingError(
            "another process of this run ended or does not answer, so all of them end; "
            "`regard resume` goes on from the last checkpoint, with any number of processes."
        ) from None


@contextmanager
def _one_voice(store: Store) -> Iterator[None]:
    """Of several processes with the same to say, the first says it and the others leave."""
    try:
        yield
    except RegardError as error:
        if _is_said(str(error), store):
            raise SystemExit(130 if isinstance(error, Interrupted) else 1) from None
        raise


def _is_said(sentence: str, store: Store) -> bool:
    try:
        return store.add(f"said: {sentence}", 1) > 1
    except dist.DistError:  # who kept the store is gone
        return False
