"""Dense feed-forward network against its equation."""

import pytest
import torch

from regard.config import kinds
from regard.layers.activations.base import ActivationSpec
from regard.layers.feedforward.base import FeedForwardSpec

D = 16


@pytest.mark.parametrize("activation", kinds(ActivationSpec.package))
def test_output_matches_equation(activation: str) -> None:
    dense = FeedForwardSpec.model_validate({"kind": "dense", "activation": activation}).build(D, 32)
    x = torch.randn(2, 3, D)
    function = ActivationSpec.model_validate(activation).function()
    inner = function(x @ dense.up_proj.weight.T + dense.up_proj.bias)
    assert torch.allclose(
        dense(x), inner @ dense.down_proj.weight.T + dense.down_proj.bias, atol=1e-6
    )
