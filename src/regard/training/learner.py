"""One update of the weights, the same code for one process or many, one batch or several.

    loss = Σ over the tokens of all batches and processes / their number

so that gradient accumulation and the number of processes change nothing but rounding. All random
numbers of an update (dropout) are a function of seed, step and rank: there is no state to save.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from regard.hardware import computes_bfloat16
from regard.layers.aux_loss import collect_aux_losses
from regard.layers.dropout import set_dropout_enabled
from regard.training.config import TrainingSpec
from regard.training.distributed.expert_parallel import (
    expert_parameters,
    gathered_experts,
    shard_experts,
)
from regard.training.distributed.fsdp import full_tensor, unsharded
from regard.training.distributed.world import World
from regard.training.ema import EMA
from regard.training.optim.param_groups import freeze, lr_multipliers, set_learning_rates
from regard.training.thread_parallel import ThreadedBackward


class Batch(Protocol):
    """Several examples of a task."""

    @property
    def num_targets(self) -> int:
        """Number of tokens or labels to predict."""
        ...

    @property
    def num_tokens(self) -> int:
        """Number of tokens that go through the model."""
        ...

    def to(self, device: torch.device) -> Self: ...

    def shard(self, rank: int, size: int) -> Self:
        """Return the rows of one process of several; they may have nothing to predict."""
        ...


WIDE = 192  # matrices whose products on a CPU are worth their conversion to bfloat16

Loss = Callable[[nn.Module, Any], Tensor]  # (model, batch) → the sum over the batch's tokens


@dataclass(frozen=True)
class Update:
    """The result of one update."""

    loss: float  # per token, without auxiliary losses
    tokens: int  # predicted, over all processes
    grad_norm: float  # before clipping
    applied: bool  # False if loss or gradient were not finite: the weights are unchanged
    stop_requested: bool  # by a signal to any process
    seconds: float  # since training began, by the main process's clock
    aux_loss: float  # sum of the auxiliary losses, per token
    counts: Mapping[str, int]  # counted by layers, over all processes


class Learner:
    """A model with its loss, optimizers, EMA and processes."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        spec: TrainingSpec,
        world: World,
        base_parameters: frozenset[str] = frozenset(),
    ) -> None:
        self.model, self.spec, self.world = model, spec, world
        self.base_parameters = base_parameters  # of another run: left out of checkpoints
        freeze(model, spec.freeze)
        self.sharded = spec.fsdp and world.size > 1
        self.expert_parallel = spec.expert_parallel and world.size > 1
        if spec.expert_parallel:
            shard_experts(model, world)
        self._with_loss = _WithLoss(model, loss)
        local = expert_parameters(self._with_loss)
        self.module = world.wrap(self._with_loss, self.sharded, local)
        self.precision = _precision(spec, model, world)
        self.optimizers = spec.optimizer.build(model, self.precision)
        set_learning_rates(
            self.optimizers, lr_multipliers(model, spec.layer_lr_decay, spec.lr_multipliers)
        )
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        # An expert's parameters and gradients are in one process, the shared ones in all.
        self.expert_parameters = [p for p in local.values() if p.requires_grad]
        experts = set(local.values())
        self.shared_parameters = [p for p in self.parameters if p not in experts]
        self.threaded = ThreadedBackward(self._loss, self.parameters)
        self.ema = EMA(model, spec.ema_decay) if spec.ema_decay else None
        self.flops_per_token = 0.0  # counted before the first update

    def update(
        self,
        batches: Sequence[Batch],
        step: int,
        progress: float,
        stop_requested: bool = False,
        seconds: float = 0.0,
        epoch: int = 1,
    ) -> Update:
        """Make the step-th update, counted from 1.

        `progress` is the fraction of training that is done, `epoch` the number of passes over the
        data, `seconds` the time since training began.
        """
        world = self.world
        # A batch is global: each process computes its shard.
        tokens = sum(batch.num_targets for batch in batches)
        if not self.flops_per_token and world.size == 1:
            self._count_flops(batches[0])
        self._begin(step, epoch)
        own_loss = self._backward(batches, tokens)
        norm = self._clip()
        own_aux_loss, own_counts = self._with_loss.collected()
        loss, aux_loss, stops, clock, *counts = world.all_reduce_sum(
            [
                own_loss - own_aux_loss,
                own_aux_loss,
                float(stop_requested),
                seconds if world.is_main else 0.0,
                *own_counts.values(),
            ]
        )
        # The norm is of the summed gradient, the same in every process: all skip or none.
        applied = math.isfinite(loss) and math.isfinite(norm)
        if applied:
            rate = self.spec.optimizer.rate
            planned = rate(self.spec.updates(step - 1, progress)) / rate()
            self._optimizer_step(planned * self.spec.schedule.factor(step, progress))
            if self.ema is not None:
                self.ema.update(step)
        total_counts = dict(zip(own_counts, map(int, counts), strict=True))
        return Update(
            loss / tokens, tokens, norm, applied, stops > 0, clock, aux_loss / tokens, total_counts
        )

    def _begin(self, step: int, epoch: int) -> None:
        """Set seeds, dropout and gradients for an update, whatever came before it."""
        _seed_generators(self.world.device, _seed(self.spec.seed, step, self.world.rank))
        if not self.model.training:
            self.model.train()
        set_dropout_enabled(self.model, epoch >= self.spec.dropout_start_epoch)
        self._with_loss.reset()
        for parameter in self.parameters:
            parameter.grad = None

    def _backward(self, batches: Sequence[Batch], tokens: int) -> float:
        """Add up the gradients of all batches; return this process's part of the summed loss."""
        world, total = self.world, 0.0
        for number, batch in enumerate(batches, start=1):
            if (workers := self._num_workers(batch)) > 1:
                total += self.threaded.backward(batch, workers, 1 / tokens)
                continue
            share = batch.shard(world.rank, world.size) if world.size > 1 else batch
            with self._gradient_sync(number == len(batches)):
                loss = self._loss(share)
            # The processes' gradients are averaged and a sum is needed: × their number.
            torch.autograd.backward(loss * (world.size / tokens))
            total += float(loss.detach())
        # Experts get the tokens of all processes, so their gradient is a sum already.
        for gradient in _gradients(self.expert_parameters):
            gradient /= world.size
        return total

    def _clip(self) -> float:
        """Clip the gradient to `max_grad_norm`; return its norm before clipping."""
        norm = nn.utils.get_total_norm(_gradients(self.shared_parameters))
        if self.expert_parallel:
            own = nn.utils.get_total_norm(_gradients(self.expert_parameters))
            norm = (norm.square() + self.world.all_reduce_sum([float(own) ** 2])[0]).sqrt()
        nn.utils.clip_grads_with_norm_(self.parameters, self.spec.max_grad_norm, norm)
        return float(full_tensor(norm))

    def _num_workers(self, batch: Batch) -> int:
        single_cpu_process = self.world.size == 1 and self.world.device.type == "cpu"
        return self.threaded.num_workers(batch.num_tokens) if single_cpu_process else 1

    def _loss(self, batch: Batch) -> Tensor:
        device = self.world.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.precision != torch.float32):
            loss: Tensor = self.module(batch.to(device))
        return loss

    def _optimizer_step(self, factor: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()

    @contextmanager
    def _gradient_sync(self, last: bool) -> Iterator[None]:
        """Exchange gradients once an update, after its last batch.

        With FSDP, after every batch: no process has memory for the whole gradient.
        """
        if isinstance(self.module, DistributedDataParallel) and not last:
            with self.module.no_sync():
                yield
        else:
            yield

    def _count_flops(self, batch: Batch) -> None:
        """Count the operations of a few rows, before the update, which they must not affect."""
        few = batch.shard(0, 8) if batch.shard(0, 8).num_targets else batch
        with FlopCounterMode(display=False) as counter:
            torch.autograd.backward(self._loss(few))
        self.flops_per_token = counter.get_total_flops() / few.num_targets

    @contextmanager
    def for_evaluation(self) -> Iterator[nn.Module]:
        """Yield the model for evaluation: all weights, averaged if there is an EMA, no dropout."""
        self.model.eval()
        averaged = nullcontext() if self.ema is None else self.ema.in_place()
        all_weights = unsharded(self.module) if self.sharded else gathered_experts(self.model)
        with averaged, all_weights:
            yield self.model


class _WithLoss(nn.Module):
    """The loss as a module's forward pass, where torch's parallel wrappers can see it.

    The auxiliary losses of the model's layers are added to it.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self._collected: list[tuple[float, Mapping[str, int]]] = []

    def forward(self, batch: Any) -> Tensor:
        with collect_aux_losses() as aux_losses:
            loss = self.loss(self.model, batch)
        for aux_loss in aux_losses:
            loss = loss + batch.num_targets * aux_loss.loss
            self._collected.append(
                (float(batch.num_targets * aux_loss.loss.detach()), aux_loss.counts)
            )
        return loss

    def collected(self) -> tuple[float, dict[str, int]]:
        """Return the sum of an update's auxiliary losses, and the sums of its counts."""
        counts: Counter[str] = Counter()
        for _, layer_counts in self._collected:
            counts.update(layer_counts)
        # Threads add in any order; fsum does not depend on it.
        return math.fsum(loss for loss, _ in self._collected), dict(sorted(counts.items()))

    def reset(self) -> None:
        self._collected.clear()


def _precision(spec: TrainingSpec, model: nn.Module, world: World) -> torch.dtype:
    """Return the type of the factors of matrix products; weights are in float32.

    `auto` is bfloat16 where all processes compute it fast. On a CPU, the conversions cost narrow
    models more than the products gain: a step of D = 64 takes 1.3 times as long, of D = 128 the
    same, of D = 256 0.6 times.
    """
    if spec.precision != "auto":
        return torch.bfloat16 if spec.precision == "bfloat16" else torch.float32
    widths = [min(p.shape) for p in model.parameters() if p.dim() == 2]
    wide = world.device.type != "cpu" or (widths and statistics.median(widths) >= WIDE)
    fast = bool(wide) and computes_bfloat16(world.device)
    return torch.bfloat16 if all(world.all_gather(fast)) else torch.float32


def _gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def _seed_generators(device: torch.device, seed: int) -> None:
    """Seed as torch.manual_seed, which keeps a stack trace for every kind of device not there."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _seed(*numbers: int) -> int:
    """Return one seed from several numbers, unlike those of similar numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
