"""Tracebacks for the log, without the messages of exceptions: they may have the text of a user."""

from collections.abc import Iterator
from traceback import format_tb


def traceback_without_text(error: BaseException) -> str:
    """Return where an exception, and those that caused it, were raised, and their classes."""
    raised = [
        f"Traceback (most recent call last):\n{''.join(format_tb(cause.__traceback__))}"
        f"{type(cause).__module__}.{type(cause).__qualname__}"
        for cause in _causes(error)
    ]
    return "\n\nwhile this was handled:\n\n".join(raised)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        context = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ or context
