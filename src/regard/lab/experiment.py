"""What an experiment works with: a bar, a clock, and a small training loop, the same for all.

A bar counts the planned units of a whole experiment; `fit` counts its steps on it.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.hardware import best_device
from regard.training.reporting.progress import Reporter

WARMING = 0.1  # of the steps, until the learning rate is whole


class Bench:
    def __init__(self, report: Reporter, title: str = "") -> None:
        self.report, self.title = report, title
        self.device = best_device()
        self.advance: Callable[[int], None] = lambda more: None  # noqa: ARG005

    @contextmanager
    def plan(self, units: int, unit: str = "steps") -> Iterator[None]:
        """A bar of so many units for what happens inside."""
        with self.report.bar(self.title, units, unit) as self.advance:
            yield
        self.advance = lambda more: None  # noqa: ARG005

    def fit(
        self,
        model: nn.Module,
        loss: Callable[[nn.Module, int], Tensor],
        steps: int,
        rate: float = 3e-3,
        every: int | None = None,
    ) -> list[float]:
        """Train by AdamW, warmed up and cooled down; the losses, each the mean of `every` steps.

        `loss` gives the mean loss of the batch of a step, counted from 0.
        """
        optimizer = torch.optim.AdamW(model.parameters(), rate, (0.9, 0.98), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _pace(step, steps))
        model.train()
        losses = []
        for step in range(steps):
            now = loss(model, step)
            optimizer.zero_grad(set_to_none=True)
            now.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(now.detach()))
            self.advance(1)
        model.eval()
        every = every or max(1, steps // 20)
        return [statistics.fmean(losses[i : i + every]) for i in range(0, steps, every)]

    def seconds(
        self, ways: Mapping[str, Callable[[], object]], rounds: int = 5
    ) -> dict[str, list[float]]:
        """How long each takes, in turns, so that what slows the machine slows all alike."""
        for run in ways.values():
            run()  # the first time is dearer
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, run in ways.items():
                began = time.perf_counter()
                run()
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
                taken[name].append(time.perf_counter() - began)
                self.advance(1)
        return taken


def generator(*numbers: int) -> torch.Generator:
    """Chance that is a function of a seed, a step …"""
    state = 0
    for number in numbers:
        state = (state * 1_000_003 + number + 1) % 2**63
    return torch.Generator().manual_seed(state)


def _pace(step: int, steps: int) -> float:
    warm = max(1, round(WARMING * steps))
    return min((step + 1) / warm, 1.0) * max(0.0, 1 - max(0, step - warm) / max(1, steps - warm))
