"""Accuracy."""

import pytest

from regard.evaluation.classification import accuracy


def test_accuracy_counts_what_is_right() -> None:
    assert accuracy(["a", "b", "b", "a"], ["a", "b", "a", "a"]) == 0.75
    with pytest.raises(ValueError, match="longer"):
        accuracy([1], [1, 2])
