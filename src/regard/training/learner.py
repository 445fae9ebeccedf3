"""One update of the weights, the same lines for one process or many, one batch or several.

    loss = Σ over the tokens of all batches and processes / their number

so that accumulation and the number of processes change nothing but the rounding. All randomness of
an update (dropout) follows from the seed, the step and the rank: there is no random state to save.
"""

import math
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
from regard.layers.aux_loss import listening
from regard.layers.dropout import rest
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
    """What a job learns from: some examples at once."""

    @property
    def num_targets(self) -> int:
        """How many predictions it asks for."""
        ...

    @property
    def num_tokens(self) -> int:
        """How many tokens go through the model."""
        ...

    def to(self, device: torch.device) -> Self: ...

    def shard(self, rank: int, size: int) -> Self:
        """The part of one process of several; it may have nothing to predict."""
        ...


Loss = Callable[[nn.Module, Any], Tensor]  # (model, batch) → the sum over the batch's tokens


@dataclass(frozen=True)
class Update:
    """How one update went."""

    loss: float  # per token, without asides
    tokens: int  # predicted, over all processes
    grad_norm: float  # of the gradient before clipping
    applied: bool  # False where loss or gradient were not finite: the weights did not move
    stop_requested: bool  # by a signal to any process
    seconds: float  # since training began, by the leading process's clock
    aside: float  # what parts of the model added to the loss, per token
    counts: Mapping[str, int]  # what they counted, over all processes


class Learner:
    """A model and all that moves its weights."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        spec: TrainingSpec,
        world: World,
        base_parameters: frozenset[str] = frozenset(),
    ) -> None:
        self.model, self.spec, self.world = model, spec, world
        self.base_parameters = (
            base_parameters  # parameters of another run, which checkpoints leave out
        )
        freeze(model, spec.freeze)
        self.sharded = spec.fsdp and world.size > 1
        self.spread = spec.expert_parallel and world.size > 1
        if spec.expert_parallel:
            shard_experts(model, world)
        self._with_loss = _WithLoss(model, loss)
        alone = expert_parameters(self._with_loss)
        self.module = world.wrap(self._with_loss, self.sharded, alone)
        self.optimizers = spec.optimizer.build(model)
        set_learning_rates(
            self.optimizers, lr_multipliers(model, spec.layer_lr_decay, spec.lr_multipliers)
        )
        self.parameters = [each for each in model.parameters() if each.requires_grad]
        # Of these only one process has each, and so its gradient; of those all have all.
        self.expert_parameters = [each for each in alone.values() if each.requires_grad]
        others = set(alone.values())
        self.shared = [each for each in self.parameters if each not in others]
        self.threaded = ThreadedBackward(self._loss, self.parameters)
        self.ema = EMA(model, spec.ema_decay) if spec.ema_decay else None
        self.flops_per_token = (
            0.0  # floating-point operations for a token, counted before the first update
        )
        self.autocast = spec.precision == "bfloat16" or (
            spec.precision == "auto" and computes_bfloat16(world.device)
        )

    def update(
        self,
        batches: Sequence[Batch],
        step: int,
        progress: float,
        stop_requested: bool = False,
        seconds: float = 0.0,
        epoch: int = 1,
    ) -> Update:
        """The step-th update, counted from 1, `progress` of training being behind.

        `epoch` is how often all of the data have been seen.
        """
        world = self.world
        # A batch is global: each process computes its shard.
        tokens = sum(batch.num_targets for batch in batches)
        if not self.flops_per_token and world.size == 1:
            self._count_flops(batches[0])
        self._begin(step, epoch)
        own_loss = self._backward(batches, tokens)
        norm = self._clip()
        own_aside, own_counts = self._with_loss.heard()
        loss, aside, stops, clock, *counts = world.all_reduce_sum(
            [
                own_loss - own_aside,
                own_aside,
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
        counted = dict(zip(own_counts, map(int, counts), strict=True))
        return Update(
            loss / tokens, tokens, norm, applied, stops > 0, clock, aside / tokens, counted
        )

    def _begin(self, step: int, epoch: int) -> None:
        """Chance, dropout and gradients as the update wants them, whatever came before it."""
        _seed_generators(self.world.device, _seed(self.spec.seed, step, self.world.rank))
        if not self.model.training:
            self.model.train()
        rest(self.model, epoch < self.spec.dropout_start_epoch)
        self._with_loss.forget()
        for parameter in self.parameters:
            parameter.grad = None

    def _backward(self, batches: Sequence[Batch], tokens: int) -> float:
        """Gradients of all batches added up; this process's part of the summed loss."""
        world, total = self.world, 0.0
        for number, batch in enumerate(batches, start=1):
            if (lanes := self._lanes(batch)) > 1:
                total += self.threaded.backward(batch, lanes, 1 / tokens)
                continue
            share = batch.shard(world.rank, world.size) if world.size > 1 else batch
            with self._communicating(number == len(batches)):
                loss = self._loss(share)
            # The processes' gradients are averaged, and a sum is wanted: × their number.
            torch.autograd.backward(loss * (world.size / tokens))
            total += float(loss.detach())
        # What has met the words of all processes is a sum already.
        for gradient in _gradients(self.expert_parameters):
            gradient /= world.size
        return total

    def _clip(self) -> float:
        """The norm of the whole gradient, which is made shorter where it is too long."""
        norm = nn.utils.get_total_norm(_gradients(self.shared))
        if self.spread:
            own = nn.utils.get_total_norm(_gradients(self.expert_parameters))
            norm = (norm.square() + self.world.all_reduce_sum([float(own) ** 2])[0]).sqrt()
        nn.utils.clip_grads_with_norm_(self.parameters, self.spec.max_grad_norm, norm)
        return float(full_tensor(norm))

    def _lanes(self, batch: Batch) -> int:
        alone_on_cpu = self.world.size == 1 and self.world.device.type == "cpu"
        return self.threaded.wanted(batch.num_tokens) if alone_on_cpu else 1

    def _loss(self, batch: Batch) -> Tensor:
        device = self.world.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocast):
            loss: Tensor = self.module(batch.to(device))
        return loss

    def _optimizer_step(self, factor: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()

    @contextmanager
    def _communicating(self, last: bool) -> Iterator[None]:
        """Processes exchange gradients once an update, after its last batch.

        In parts, after every batch: nobody has room for the whole gradient.
        """
        if isinstance(self.module, DistributedDataParallel) and not last:
            with self.module.no_sync():
                yield
        else:
            yield

    def _count_flops(self, batch: Batch) -> None:
        """On a few rows, before the update: it must not know whether anyone counted."""
        few = batch.shard(0, 8) if batch.shard(0, 8).num_targets else batch
        with FlopCounterMode(display=False) as counter:
            torch.autograd.backward(self._loss(few))
        self.flops_per_token = counter.get_total_flops() / few.num_targets

    @contextmanager
    def for_evaluation(self) -> Iterator[nn.Module]:
        """The model as it should be judged: averaged if asked for, without dropout."""
        self.model.eval()
        averaged = nullcontext() if self.ema is None else self.ema.in_place()
        whole_model = unsharded(self.module) if self.sharded else gathered_experts(self.model)
        with averaged, whole_model:
            yield self.model


class _WithLoss(nn.Module):
    """The loss as a module's forward, where torch's parallel wrappers can see it.

    To it is added what parts of the model say aside.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self._heard: list[tuple[float, Mapping[str, int]]] = []

    def forward(self, batch: Any) -> Tensor:
        with listening() as asides:
            loss = self.loss(self.model, batch)
        for aside in asides:
            loss = loss + batch.num_targets * aside.loss
            self._heard.append((float(batch.num_targets * aside.loss.detach()), aside.counts))
        return loss

    def heard(self) -> tuple[float, dict[str, int]]:
        """What parts of the model added to the losses of an update, and all that they counted."""
        counts: Counter[str] = Counter()
        for _, each in self._heard:
            counts.update(each)
        # Lanes may have come in any order: the sum is the same in each.
        return math.fsum(loss for loss, _ in self._heard), dict(sorted(counts.items()))

    def forget(self) -> None:
        self._heard.clear()


def _gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    return [each.grad for each in parameters if each.grad is not None]


def _seed_generators(device: torch.device, seed: int) -> None:
    """As torch.manual_seed, which keeps a stack trace for each kind of device that is not there."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _seed(*numbers: int) -> int:
    """One seed from several numbers, unlike those of their neighbours."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
