"""Layer normalization against its equation."""

import pytest
import torch
from torch import nn

from regard.layers.norms.base import NormSpec

D = 16


@pytest.mark.parametrize("gain", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_output_matches_equation(gain: bool, bias: bool) -> None:
    norm = NormSpec.model_validate({"kind": "layer", "gain": gain, "bias": bias}).build(D)
    names = {name for name, _ in norm.named_parameters()}
    assert names == {name for name, is_enabled in (("gain", gain), ("bias", bias)) if is_enabled}
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(3, 5, D) * 4 + 2
    mu = x.sum(-1, keepdim=True) / D
    variance = ((x - mu) ** 2).sum(-1, keepdim=True) / D
    expected = (x - mu) / (variance + 1e-5).sqrt()
    expected = expected * norm.gain if gain else expected
    expected = expected + norm.bias if bias else expected
    assert torch.allclose(norm(x), expected, atol=1e-5)


def test_constant_vector_is_normalized_to_zero_not_nan() -> None:
    norm = NormSpec.model_validate("layer").build(D)
    assert torch.allclose(norm(torch.full((1, D), 3.0)), torch.zeros(1, D), atol=1e-3)
