"""The interface that a download reports to: messages and a bar."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Reports(Protocol):
    """Shows messages and progress."""

    def say(self, message: str) -> None:
        """Show a message."""

    def bar(
        self, title: str, total: int | None, unit: str
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Show a bar; the function it yields advances it by a number of units."""


class _Silent:
    def say(self, message: str) -> None:
        pass

    @contextmanager
    def bar(self, title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        yield lambda _: None


SILENT: Reports = _Silent()
