"""Independent batches on several threads, each with one core of its own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def map_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
    """Yield the index and the result of each item, in order of completion.

    One thread for each of torch's; within them torch uses one thread. With one thread, or one
    item, the items are computed in order in the calling thread.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(items) < 2:
        yield from ((index, function(item)) for index, item in enumerate(items))
        return

    def limit_to_one_thread() -> None:
        torch.get_num_threads()  # a thread adopts the number set last when it first reads it
        torch.set_num_threads(1)
        all_ready.wait()

    all_ready = threading.Barrier(threads + 1)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(threads):
            pool.submit(limit_to_one_thread)
        all_ready.wait()
        torch.set_num_threads(threads)
        pending: dict[Future[R], int] = {}
        try:
            for index, item in enumerate(items):
                pending[pool.submit(function, item)] = index
            while pending:
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()
