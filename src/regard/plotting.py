"""A figure that becomes SVG: the same figure, the same text."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def figure_of(width: float, height: float) -> Iterator[tuple[Any, Callable[[], str]]]:
    """A figure of that size in inches, and how to save it."""
    # Figure and canvas without pyplot: no global state, no display, no fonts to look for.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "regard", "svg.fonttype": "none"}):
        figure = Figure(figsize=(width, height), layout="constrained")

        def save() -> str:
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
            return file.getvalue()

        yield figure, save
