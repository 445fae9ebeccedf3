"""Independent batches on several threads, each with one core of its own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from regard.hardware import num_threads, single_threaded

T = TypeVar("T")
R = TypeVar("R")


def map_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
    """Yield the index and the result of each item, in order of completion.

    There are as many threads as an engine call would use, and within them a call uses one. With
    one thread, or one item, the items are computed in order in the calling thread.
    """
    threads = num_threads()
    if threads == 1 or len(items) < 2:
        yield from ((index, function(item)) for index, item in enumerate(items))
        return

    def on_one_core(item: T) -> R:
        with single_threaded():
            return function(item)

    with ThreadPoolExecutor(threads) as pool:
        pending: dict[Future[R], int] = {}
        try:
            for index, item in enumerate(items):
                pending[pool.submit(on_one_core, item)] = index
            while pending:
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()
