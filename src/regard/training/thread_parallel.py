"""On a CPU a batch goes through the model in lanes, each with rows and threads of its own.

Threads that share a kernel wait for each other at its end, hundreds of times an update. A lane
takes its rows through the whole forward and backward pass with as few threads as there are for it:
one, where the batch is large enough. Lanes meet once, where their gradients are added, always in
the same order: the sum is the same every time.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.dropout import drawing_from

ENOUGH = 384  # tokens that keep a lane busy

Loss = Callable[[Any], Tensor]  # of a batch, summed


class ThreadedBackward:
    def __init__(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> None:
        self.loss = loss
        self.parameters = parameters
        self.threads = torch.get_num_threads()

    def wanted(self, tokens: int) -> int:
        """How many lanes a batch of so many tokens keeps busy, each with as many threads."""
        busy = max(1, min(self.threads, tokens // ENOUGH))
        return next(lanes for lanes in range(busy, 0, -1) if self.threads % lanes == 0)

    def backward(self, batch: Any, lanes: int, scale: float) -> float:
        """Add the gradient of scale · loss to the parameters' own; the loss before scaling."""
        seeds = torch.randint(2**62, (lanes,)).tolist()  # drawn here: lanes race, chance must not
        threads = self.threads // lanes
        futures = [
            self._pool.submit(self._lane, batch.shard(lane, lanes), scale, seed, threads)
            for lane, seed in enumerate(seeds)
        ]
        wait(futures)
        torch.set_num_threads(self.threads)  # what a thread begins with is the number set last
        losses, gradients = zip(*(future.result() for future in futures), strict=True)
        for each in gradients:
            self._add(each)
        return float(sum(losses))

    def _add(self, gradients: Sequence[Tensor | None]) -> None:
        sums, parts = [], []
        for parameter, part in zip(self.parameters, gradients, strict=True):
            if part is None:
                continue
            if parameter.grad is None:
                parameter.grad = part
            else:
                sums.append(parameter.grad)
                parts.append(part)
        if sums:
            torch._foreach_add_(sums, parts)

    def _lane(
        self, share: Any, scale: float, seed: int, threads: int
    ) -> tuple[float, Sequence[Tensor | None]]:
        torch.get_num_threads()  # the first time, this takes over the number set last
        torch.set_num_threads(threads)
        with drawing_from(seed):
            loss = self.loss(share)
        gradients = torch.autograd.grad(loss * scale, self.parameters, allow_unused=True)
        return float(loss.detach()), gradients

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "lane")
