"""Norms, feed-forward networks and residual wiring, each against its equation."""

import pytest
import torch
from torch import nn

from regard.config import kinds
from regard.layers.activations.base import ActivationSpec
from regard.layers.feedforward.base import FeedForwardSpec
from regard.layers.norms.base import NormSpec
from regard.layers.residual import Residual

D = 16


@pytest.mark.parametrize("gain", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_is_its_equation(gain: bool, bias: bool) -> None:
    norm = NormSpec.model_validate({"kind": "layer", "gain": gain, "bias": bias}).build(D)
    names = {name for name, _ in norm.named_parameters()}
    assert names == {name for name, given in (("gain", gain), ("bias", bias)) if given}
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(3, 5, D) * 4 + 2
    mu = x.sum(-1, keepdim=True) / D
    variance = ((x - mu) ** 2).sum(-1, keepdim=True) / D
    expected = (x - mu) / (variance + 1e-5).sqrt()
    expected = expected * norm.gain if gain else expected
    expected = expected + norm.bias if bias else expected
    assert torch.allclose(norm(x), expected, atol=1e-5)


def test_rms_norm_is_its_equation() -> None:
    norm = NormSpec.model_validate("rms").build(D)
    nn.init.normal_(norm.gain)
    x = torch.randn(3, 5, D)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.gain
    assert torch.allclose(norm(x), expected, atol=1e-5)


def test_a_constant_vector_is_normalised_to_zero_not_nan() -> None:
    norm = NormSpec.model_validate("layer").build(D)
    assert torch.allclose(norm(torch.full((1, D), 3.0)), torch.zeros(1, D), atol=1e-3)


@pytest.mark.parametrize("activation", kinds(ActivationSpec.package))
def test_feed_forward_is_its_equation(activation: str) -> None:
    dense = FeedForwardSpec.model_validate({"kind": "dense", "activation": activation}).build(D, 32)
    x = torch.randn(2, 3, D)
    function = ActivationSpec.model_validate(activation).function()
    inner = function(x @ dense.up_proj.weight.T + dense.up_proj.bias)
    assert torch.allclose(
        dense(x), inner @ dense.down_proj.weight.T + dense.down_proj.bias, atol=1e-6
    )


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("sigmoid", torch.sigmoid),
        ("gelu", nn.functional.gelu),
        ("silu", lambda x: x * torch.sigmoid(x)),
    ],
)
def test_gated_feed_forward_is_its_equation(activation: str, function: object) -> None:
    gated = FeedForwardSpec.model_validate({"kind": "gated", "activation": activation}).build(D, 32)
    x = torch.randn(2, 3, D)
    inner = function(x @ gated.gate_proj.weight.T) * (x @ gated.up_proj.weight.T)
    assert torch.allclose(gated(x), inner @ gated.down_proj.weight.T, atol=1e-6)


def test_residual_wiring_first_and_last() -> None:
    x, answer = torch.randn(2, 3, D), torch.randn(2, 3, D)
    norm = nn.LayerNorm(D)
    first, last = Residual(norm, True, 0.0), Residual(norm, False, 0.0)
    assert torch.equal(first.sublayer_input(x), norm(x))
    assert torch.equal(first.add(x, answer), x + answer)
    assert torch.equal(last.sublayer_input(x), x)
    assert torch.equal(last.add(x, answer), norm(x + answer))


def test_dropout_falls_on_the_answer_and_not_on_the_residual() -> None:
    residual = Residual(nn.Identity(), True, 0.5).train()
    x, answer = torch.zeros(1000), torch.ones(1000)
    added = residual.add(x, answer)
    assert set(added.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(residual.add(torch.ones(1000), torch.zeros(1000)), torch.ones(1000))
