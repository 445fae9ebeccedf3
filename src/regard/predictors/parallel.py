"""Independent batches on several threads, a core each: no thread waits for another."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], jobs: Sequence[T]) -> Iterator[tuple[int, R]]:
    """The number and the answer of each job, as they are done."""
    threads = torch.get_num_threads()
    if threads == 1 or len(jobs) < 2:
        yield from ((number, work(job)) for number, job in enumerate(jobs))
        return

    def settle() -> None:
        torch.get_num_threads()  # a thread takes over the number set last when first asked
        torch.set_num_threads(1)
        all_there.wait()

    all_there = threading.Barrier(threads + 1)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(threads):
            pool.submit(settle)
        all_there.wait()
        torch.set_num_threads(threads)
        waiting: dict[Future[R], int] = {}
        try:
            for number, job in enumerate(jobs):
                waiting[pool.submit(work, job)] = number
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        finally:
            for future in waiting:
                future.cancel()
