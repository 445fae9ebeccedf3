"""The tools of an experiment: a progress bar, a clock and a small training loop.

The progress bar counts the planned units of a whole experiment; `fit` advances it by its steps.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.hardware import best_device
from regard.training.reporting.progress import Reporter

WARMUP = 0.1  # share of the steps


class Experiment:
    """A running experiment: its device and its progress bar."""

    def __init__(self, report: Reporter, title: str = "") -> None:
        self.report, self.title = report, title
        self.device = best_device()
        self.advance: Callable[[int], None] = lambda more: None  # noqa: ARG005

    @contextmanager
    def plan(self, units: int, unit: str = "steps") -> Iterator[None]:
        """Show a progress bar of so many units while the context lasts."""
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
        """Train with AdamW, warmup and linear decay; return losses, each the mean of `every` steps.

        `loss` returns the mean loss of the batch of a step, counted from 0.
        """
        optimizer = torch.optim.AdamW(model.parameters(), rate, (0.9, 0.98), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: _lr_factor(step, steps)
        )
        model.train()
        losses = []
        for step in range(steps):
            step_loss = loss(model, step)
            optimizer.zero_grad(set_to_none=True)
            step_loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(step_loss.detach()))
            self.advance(1)
        model.eval()
        every = every or max(1, steps // 20)
        return [statistics.fmean(losses[i : i + every]) for i in range(0, steps, every)]

    def seconds(
        self, functions: Mapping[str, Callable[[], object]], rounds: int = 5
    ) -> dict[str, list[float]]:
        """Time functions in turns, so that load on the machine affects all of them alike."""
        for run in functions.values():
            run()  # the first call is slower
        measured: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(rounds):
            for name, run in functions.items():
                start = time.perf_counter()
                run()
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
                measured[name].append(time.perf_counter() - start)
                self.advance(1)
        return measured


def generator(*numbers: int) -> torch.Generator:
    """Return a random generator that is a function of a seed, a step and so on."""
    state = 0
    for number in numbers:
        state = (state * 1_000_003 + number + 1) % 2**63
    return torch.Generator().manual_seed(state)


def _lr_factor(step: int, steps: int) -> float:
    warm = max(1, round(WARMUP * steps))
    return min((step + 1) / warm, 1.0) * max(0.0, 1 - max(0, step - warm) / max(1, steps - warm))
