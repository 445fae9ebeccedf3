"""Gated feed-forward network against its equation."""

import pytest
import torch
from torch import nn

from regard.layers.feedforward.base import FeedForwardSpec

D = 16


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("sigmoid", torch.sigmoid),
        ("gelu", nn.functional.gelu),
        ("silu", lambda x: x * torch.sigmoid(x)),
    ],
)
def test_output_matches_equation(activation: str, function: object) -> None:
    gated = FeedForwardSpec.model_validate({"kind": "gated", "activation": activation}).build(D, 32)
    x = torch.randn(2, 3, D)
    inner = function(x @ gated.gate_proj.weight.T) * (x @ gated.up_proj.weight.T)
    assert torch.allclose(gated(x), inner @ gated.down_proj.weight.T, atol=1e-6)
