"""On a CPU each thread carries its own rows of a batch; not all threads share every kernel.

Threads that share a kernel wait for each other at its end, hundreds of times an update. A lane
takes its rows through the whole forward and backward pass with kernels of one thread. Lanes meet
once, where their gradients are added, always in the same order: the sum is the same every time.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.blocks.dropout import drawing_from

ENOUGH = 512  # tokens to predict that keep a lane busy

Loss = Callable[[Any], Tensor]  # of a batch, summed


class Lanes:
    def __init__(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> None:
        self.loss = loss
        self.parameters = parameters
        self.threads = torch.get_num_threads()

    def wanted(self, tokens: int) -> int:
        """How many lanes a batch of so many tokens keeps busy."""
        return max(1, min(self.threads, tokens // ENOUGH))

    def backward(self, batch: Any, lanes: int, scale: float) -> float:
        """Add the gradient of scale · loss to the parameters' own; the loss before scaling."""
        seeds = torch.randint(2**62, (lanes,)).tolist()  # drawn here: lanes race, chance must not
        jobs = [
            self._pool.submit(self._lane, batch.share(lane, lanes), scale, seed)
            for lane, seed in enumerate(seeds)
        ]
        losses, gradients = zip(*(job.result() for job in jobs), strict=True)
        for parameter, *parts in zip(self.parameters, *gradients, strict=True):
            for part in parts:
                if part is not None:
                    parameter.grad = part if parameter.grad is None else parameter.grad.add_(part)
        return float(sum(losses))

    def _lane(self, share: Any, scale: float, seed: int) -> tuple[float, Sequence[Tensor | None]]:
        with drawing_from(seed):
            loss = self.loss(share)
        gradients = torch.autograd.grad(loss * scale, self.parameters, allow_unused=True)
        return float(loss.detach()), gradients

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads whose kernels use no other."""
        all_there = threading.Barrier(self.threads + 1)

        def settle() -> None:
            torch.get_num_threads()  # a thread takes over the number set last when first asked
            torch.set_num_threads(1)
            all_there.wait()

        pool = ThreadPoolExecutor(self.threads, "lane")
        for _ in range(self.threads):
            pool.submit(settle)
        all_there.wait()
        torch.set_num_threads(self.threads)
        return pool
