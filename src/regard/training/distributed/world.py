"""The process group of training: one process or many.

`torchrun … -m regard train RECIPE` starts several processes and gives each its rank by environment
variables. Every process runs the same code: it computes its shard of each batch and takes part in
every all-reduce. With one process, all-reduce returns its argument.

An error in one process ends all (`liveness.py`). It is reported where it happens and the others
exit silently; where several processes have the same error, one reports it.
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
from regard.training.distributed.liveness import (
    REMEDY,
    Watch,
    report_first,
    watch_processes,
)

# Others wait while the main process prepares the data or evaluates the finished model; a process
# that is lost meanwhile is noticed by its heartbeat, within minutes.
CONTROL_TIMEOUT = timedelta(days=7)

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """Rank, size and device of this process, and collective operations."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    control: dist.ProcessGroup | None = None  # for Python objects, and with a long timeout

    @property
    def is_main(self) -> bool:
        """True in the process that writes files and reports progress."""
        return self.rank == 0

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        """Return each value summed over all processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value, group=self.control)
        return values

    def broadcast(self, value: T) -> T:
        """Return the main process's value."""
        values: list[Any] = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, src=0, group=self.control)
        result: T = values[0]
        return result

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Continue when all processes have succeeded within; one that fails ends all.

        It takes part in no collective operation afterwards: others may be in another one.
        """
        yield
        self.all_gather(None)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Run the block in the main process first; the others then find its results."""
        for mains_turn in (True, False):
            with self.fail_together():
                if self.is_main == mains_turn:
                    yield

    def wrap(self, module: nn.Module, sharded: bool, local: Collection[str] = ()) -> nn.Module:
        """Return the module with gradients averaged over all processes after each backward pass.

        `local` names the parameters that only one process has.
        """
        if self.size == 1:
            return module
        if sharded:
            shard(module, self.device, self.size)
            return module
        shared = (p for name, p in module.named_parameters() if name not in local)
        if not any(parameter.requires_grad for parameter in shared):
            return module
        ignore = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(module, list(local))  # type: ignore[no-untyped-call]
        ids = [self.device.index or 0] if self.device.type == "cuda" else None
        # Buffers are constant tables; gradients stay in the buckets where they were summed.
        return DistributedDataParallel(
            module, device_ids=ids, forward_sync_buffers=False, gradient_as_bucket_view=True
        )


@contextmanager
def distributed_world() -> Iterator[World]:
    """Yield the world that torchrun made for this process, or a world of one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        with _report_memory_error("this process"):
            yield World(device=best_device())
        return
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    store, rank, size = next(rendezvous("env://"))
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size)
    control = dist.new_group(backend="gloo", timeout=CONTROL_TIMEOUT)
    with (
        _report_once(store),
        watch_processes(store, rank, size) as watch,
        _report_lost_process(watch),
        _report_memory_error(f"process {rank} of this run"),
    ):
        yield World(rank, size, device, control)
    # Not after an error: it would wait for processes that may have ended.
    dist.destroy_process_group()


@contextmanager
def _report_lost_process(watch: Watch) -> Iterator[None]:
    """Raise TrainingError where a collective operation fails because a process has ended."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        # torchrun, which has noticed it too, must not cut the message off.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if watch.has_failed():
            raise SystemExit(1) from None
        raise TrainingError(
            f"another process of this run ended or does not respond, so all of them end; {REMEDY}"
        ) from None


@contextmanager
def _report_memory_error(process: str) -> Iterator[None]:
    """Raise TrainingError where memory cannot be allocated."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_memory_error(error):
            raise
        raise TrainingError(
            f"{process} has run out of memory; make training.batch_tokens smaller and "
            f"training.grad_accumulation larger by the same factor, or the model smaller."
        ) from None


def _is_memory_error(error: Exception) -> bool:
    # torch's allocator of CPU memory raises a RuntimeError.
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "DefaultCPUAllocator" in str(error)


@contextmanager
def _report_once(store: Store) -> Iterator[None]:
    """Let the first of several processes with the same error raise it; the others exit."""
    try:
        yield
    except RegardError as error:
        if not report_first(str(error), store):
            raise SystemExit(130 if isinstance(error, Interrupted) else 1) from None
        raise
