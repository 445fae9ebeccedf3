"""RMS normalization against its equation."""

import torch
from torch import nn

from regard.layers.norms.base import NormSpec

D = 16


def test_output_matches_equation() -> None:
    norm = NormSpec.model_validate("rms").build(D)
    nn.init.normal_(norm.gain)
    x = torch.randn(3, 5, D)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.gain
    assert torch.allclose(norm(x), expected, atol=1e-5)
