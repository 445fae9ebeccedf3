"""Data-parallel threads on a CPU: each computes some rows of a batch with threads of its own.

Threads that share a kernel wait for each other at its end, hundreds of times an update. Here each
worker takes its rows through the whole forward and backward pass with as few kernel threads as
there are for it: one, where the batch is large enough. Their gradients are added once, always in
the same order, so the sum is deterministic.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.dropout import fork_rng

TOKENS_PER_WORKER = 384  # enough to keep a worker busy

Loss = Callable[[Any], Tensor]  # of a batch, summed


class ThreadedBackward:
    """A backward pass that several workers compute at once."""

    def __init__(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> None:
        self.loss = loss
        self.parameters = parameters
        self.threads = torch.get_num_threads()

    def num_workers(self, tokens: int) -> int:
        """Return how many workers a batch of so many tokens keeps busy.

        All workers have equally many kernel threads.
        """
        busy = max(1, min(self.threads, tokens // TOKENS_PER_WORKER))
        return next(workers for workers in range(busy, 0, -1) if self.threads % workers == 0)

    def backward(self, batch: Any, workers: int, scale: float) -> float:
        """Add the gradient of scale · loss to the parameters'; return the loss before scaling."""
        # Drawn here: the order in which workers run must not change the random numbers.
        seeds = torch.randint(2**62, (workers,)).tolist()
        threads = self.threads // workers
        futures = [
            self._pool.submit(self._work, batch.shard(worker, workers), scale, seed, threads)
            for worker, seed in enumerate(seeds)
        ]
        wait(futures)
        torch.set_num_threads(self.threads)  # a new thread starts with the number set last
        losses, gradients = zip(*(future.result() for future in futures), strict=True)
        for own_gradients in gradients:
            self._add(own_gradients)
        return float(sum(losses))

    def _add(self, gradients: Sequence[Tensor | None]) -> None:
        sums, addends = [], []
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is None:
                continue
            if parameter.grad is None:
                parameter.grad = gradient
            else:
                sums.append(parameter.grad)
                addends.append(gradient)
        if sums:
            torch._foreach_add_(sums, addends)

    def _work(
        self, shard: Any, scale: float, seed: int, threads: int
    ) -> tuple[float, Sequence[Tensor | None]]:
        torch.get_num_threads()  # the first call in a thread resets the number, so set it after
        torch.set_num_threads(threads)
        with fork_rng(seed):
            loss = self.loss(shard)
        gradients = torch.autograd.grad(loss * scale, self.parameters, allow_unused=True)
        return float(loss.detach()), gradients

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "worker")
