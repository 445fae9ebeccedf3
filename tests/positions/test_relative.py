"""Relative positions (Shaw et al.): the equation, with and without values."""

import math

import pytest
import torch

from regard.positions.relative import Relative


def test_bias_and_values_match_equation() -> None:
    size, length, clip = 4, 6, 2
    relative = Relative(size, clip, on_values=True).requires_grad_(False)
    q, weights = torch.randn(1, 1, length, size), torch.rand(1, 1, length, length)
    positions = torch.arange(length)
    bias = relative.bias(q, positions, positions)
    offsets = relative.values(weights, positions, positions)
    assert offsets is not None
    for i in range(length):
        expected = torch.zeros(size)
        for j in range(length):
            index = max(-clip, min(clip, j - i)) + clip
            score = float(q[0, 0, i] @ relative.to_keys[index]) / math.sqrt(size)
            assert bias[0, 0, i, j].item() == pytest.approx(score, abs=1e-6)
            expected = expected + weights[0, 0, i, j] * relative.to_values[index]
        assert torch.allclose(offsets[0, 0, i], expected, atol=1e-6)


def test_values_are_unchanged_when_disabled() -> None:
    relative = Relative(4, 2, on_values=False)
    assert not relative.weighs_values
    assert relative.values(torch.rand(1, 1, 3, 3), torch.arange(3), torch.arange(3)) is None
