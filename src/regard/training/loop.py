"""The training loop: the same few lines for every model and objective."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from regard.config import Spec, kind_field
from regard.data.batching import Batch
from regard.errors import TrainingError
from regard.training.optimisers import OptimiserSpec


class TrainingSpec(Spec):
    steps: int = Field(2000, gt=0, description="updates of the weights")
    batch_tokens: int = Field(4096, gt=0, description="source and target tokens in a batch, padded")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over all words")
    seed: int = Field(1, ge=0, description="of weights, data order and dropout")
    optimiser: OptimiserSpec = kind_field(OptimiserSpec, "how the weights move")
    warmup: int = Field(50, ge=0, description="steps until the learning rate is at its peak")
    clip: float = Field(1.0, gt=0, description="the largest norm of a gradient")


@dataclass(frozen=True)
class Progress:
    """How one step went."""

    step: int
    loss: float  # per target token
    tokens: int  # target tokens in the batch
    seconds: float  # since training began


Objective = Callable[[nn.Module, Batch], Tensor]


def fit(
    model: nn.Module, objective: Objective, batches: Iterator[Batch], spec: TrainingSpec
) -> Iterator[Progress]:
    """Train, yielding after each step; whoever iterates reports, and may stop."""
    optimisers = spec.optimiser.build(model)
    rates = [LambdaLR(each, schedule(spec)) for each in optimisers]
    device = next(model.parameters()).device
    began = time.perf_counter()
    model.train()
    for step, batch in enumerate(islice(batches, spec.steps), start=1):
        tokens = batch.tokens
        loss = objective(model, batch.to(device)) / tokens
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), spec.clip)
        for optimiser, rate in zip(optimisers, rates, strict=True):
            optimiser.step()
            rate.step()
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss is not finite at step {step}: lower training.optimiser.learning_rate."
            )
        yield Progress(step, value, tokens, time.perf_counter() - began)
    model.eval()


def schedule(spec: TrainingSpec) -> Callable[[int], float]:
    """The factor of the learning rate at each step: up in a line, then down in a line to zero."""

    def factor(step: int) -> float:
        rising = (step + 1) / (spec.warmup + 1)
        falling = (spec.steps - step) / max(1, spec.steps - spec.warmup)
        return max(0.0, min(rising, falling))

    return factor


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
