"""Send a server ten times the requests that it can answer, and check what it does with them.

Its memory must stay flat, every accepted request must be answered as if it were alone, and the
others refused with status 429 and Retry-After. `serving.py --overload` runs it.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from report import table
from server_process import ServerProcess

FACTOR = 10
CLIENTS = 64  # for which the capacity is measured
TEXTS = 100

Send = Callable[..., dict[str, Any]]  # settings of a load → its result


def run(server: ServerProcess, send: Send, seconds: float) -> dict[str, Any]:
    """Return what a server does in some seconds of overload.

    Args:
        server: The server.
        send: Measures it under a load of the first TEXTS requests.
        seconds: Duration of the overload.
    """
    alone = send(clients=1, warm_up=0, seconds=0, min_answers=TEXTS)["texts"]
    expected = {index: answer for index, text in alone.items() for answer in text["answers"]}
    capacity = send(clients=CLIENTS)["requests_per_second"]
    with _memory_of(server) as memory:
        result = send(rate=FACTOR * capacity, seconds=seconds)
    statuses = result["statuses"]
    return {
        "capacity": capacity,
        "seconds": seconds,
        "sent_per_second": result["sent_per_second"],
        "accepted": statuses.pop("200", 0),
        "correct": _correct(result["texts"], expected),
        "refused": statuses.pop("429", 0),
        "without_retry_after": result["without_retry_after"],
        "other_statuses": statuses,
        "unanswered": result["unanswered"],
        "latency": result["latency"],
        "memory": memory,
    }


@contextmanager
def _memory_of(server: ServerProcess) -> Iterator[list[int]]:
    """Measure the memory of a server every second of the block; yield the series."""
    series: list[int] = []
    ended = Event()

    def measure() -> None:
        while not ended.wait(1):
            series.append(server.memory)

    thread = Thread(target=measure)
    thread.start()
    try:
        yield series
    finally:
        ended.set()
        thread.join()


def _correct(texts: Mapping[str, Any], expected: Mapping[str, str]) -> int:
    """Return the number of answers that equal that of the same request alone."""
    return sum(text["answers"].get(expected[index], 0) for index, text in texts.items())


def describe(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of overloads, by workload."""
    head = ["", "capacity/s", "sent/s", "accepted", "equal to the request alone"]
    head += ["429 with Retry-After", "other answers", "99 % of the accepted", "memory"]
    return table(head, [[name, *_cells(result)] for name, result in results.items()])


def _cells(result: Mapping[str, Any]) -> list[str]:
    others = sum(result["other_statuses"].values()) + result["unanswered"]
    series = result["memory"]
    tenth = max(len(series) // 10, 1)
    after_start, at_end = series[tenth : 2 * tenth] or series, series[-tenth:]
    return [
        f"{result['capacity']:,.1f}",
        f"{result['sent_per_second']:,.0f}",
        f"{result['accepted']:,}",
        f"{result['correct']:,}",
        f"{result['refused'] - result['without_retry_after']:,}",
        f"{others + result['without_retry_after']:,}",
        f"{result['latency'].get('99', 0):.1f} s",
        f"{statistics.mean(after_start) / 1e6:,.0f} → {statistics.mean(at_end) / 1e6:,.0f} MB",
    ]
