"""Errors of the tokenizers library, also panics of its Rust code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from regard.config import shortened
from regard.errors import RegardError


@contextmanager
def library_errors(describe: Callable[[str], RegardError]) -> Iterator[None]:
    """Raise what `describe` makes of the reason of any error of the library within."""
    try:
        yield
    except RegardError:
        raise
    except BaseException as error:
        # A panic is no Exception, so that nothing catches it by mistake.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise describe(shortened(str(error), 200)) from None
