"""How often the right label was given."""

from collections.abc import Hashable, Sequence


def accuracy(predicted: Sequence[Hashable], actual: Sequence[Hashable]) -> float:
    """The share of predictions that are right, from 0 to 1."""
    return sum(a == b for a, b in zip(predicted, actual, strict=True)) / len(actual)
