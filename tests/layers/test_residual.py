"""Residual connections: pre-norm, post-norm and dropout."""

import torch
from torch import nn

from regard.layers.residual import Residual

D = 16


def test_pre_norm_and_post_norm() -> None:
    x, sublayer_output = torch.randn(2, 3, D), torch.randn(2, 3, D)
    norm = nn.LayerNorm(D)
    pre_norm, post_norm = Residual(norm, True, 0.0), Residual(norm, False, 0.0)
    assert torch.equal(pre_norm.sublayer_input(x), norm(x))
    assert torch.equal(pre_norm.add(x, sublayer_output), x + sublayer_output)
    assert torch.equal(post_norm.sublayer_input(x), x)
    assert torch.equal(post_norm.add(x, sublayer_output), norm(x + sublayer_output))


def test_dropout_applies_to_the_sublayer_output_only() -> None:
    residual = Residual(nn.Identity(), True, 0.5).train()
    x, sublayer_output = torch.zeros(1000), torch.ones(1000)
    added = residual.add(x, sublayer_output)
    assert set(added.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(residual.add(torch.ones(1000), torch.zeros(1000)), torch.ones(1000))
