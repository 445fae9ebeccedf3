"""Checks of single settings: a value of the wrong type or out of range is refused by its name.

A bool is no number, text is no number, and a number with a fraction is no count. Both bounds of a
number are finite, which excludes NaN and infinity.
"""

from numbers import Integral, Real
from typing import Any

from regard.errors import ConfigError

MAX_BEAM = 1_000  # hypotheses; their logits are in memory together
MAX_TOKENS = 2**31 - 1  # the engine counts tokens in 32 bits


def check_count(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse a value that is no integer from `least` to `most`."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_count or value < least or (most is not None and value > most):
        limits = f", {least} or more" if most is None else f" from {least} to {most:,}"
        raise ConfigError(f"{name} is {_shown(value)}; it must be a whole number{limits}.")


def check_number(
    name: str, value: Any, least: float, most: float, *, above_least: bool = False
) -> None:
    """Refuse a value that is no finite number from `least` (or above it) to `most`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most or (above_least and value == least):
        limits = f"more than {least:g} and at most" if above_least else f"from {least:g} to"
        raise ConfigError(f"{name} is {_shown(value)}; it must be a number {limits} {most:,g}.")


def check_switch(name: str, value: Any) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {_shown(value)}; it must be True or False.")


def _shown(value: Any) -> str:
    """Return a value as it is written, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        text = "a number with thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
