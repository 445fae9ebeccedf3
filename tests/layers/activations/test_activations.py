"""The contract of activations: every kind is element-wise, has finite gradients, and is usable in
every feed-forward network; kinds that torch has equal torch's functions bit for bit."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import ConfigError, kinds, validate
from regard.layers.activations.base import ActivationSpec
from regard.layers.feedforward.base import FeedForwardSpec

KINDS = kinds(ActivationSpec.package)

# torch.nn.functional has them under the kind's name, but for these.
OTHER_NAMES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "sigmoid": torch.sigmoid,
}


def function_of(kind: str) -> Callable[[Tensor], Tensor]:
    return ActivationSpec.model_validate(kind).function()


def torch_function(kind: str) -> Callable[[Tensor], Tensor] | None:
    return OTHER_NAMES.get(kind) or getattr(F, kind.replace("-", "_"), None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if torch_function(kind) is not None])
def test_equals_function_of_torch(kind: str) -> None:
    expected = torch_function(kind)
    assert expected is not None
    x = torch.linspace(-20, 20, 4001)
    assert torch.equal(function_of(kind)(x), expected(x))


@pytest.mark.parametrize("kind", KINDS)
def test_is_element_wise(kind: str) -> None:
    function, x = function_of(kind), torch.randn(3, 4, 5)
    output = function(x)
    assert output.shape == x.shape
    torch.testing.assert_close(function(x[1:2, ::2]), output[1:2, ::2])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite(kind: str) -> None:
    x = torch.tensor([-1e4, -30.0, -1.0, 0.0, 1.0, 30.0, 1e4], requires_grad=True)
    function_of(kind)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    smooth = torch.tensor([-2.0, -0.5, 0.3, 1.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function_of(kind), (smooth,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", ["dense", "gated"])
def test_works_in_feed_forward_networks(kind: str, network: str) -> None:
    spec = validate(FeedForwardSpec, {"kind": network, "activation": kind}, "recipe.yaml")
    feed_forward = spec.build(8, 16)
    projected = feed_forward.gate_proj if network == "gated" else feed_forward.up_proj
    x = torch.randn(2, 3, 8)
    hidden = function_of(kind)(projected(x))
    hidden = hidden * feed_forward.up_proj(x) if network == "gated" else hidden
    assert torch.equal(feed_forward(x), feed_forward.down_proj(hidden))


def test_codes_and_names_are_unique() -> None:
    specs = [type(ActivationSpec.model_validate(kind)) for kind in KINDS]
    engine = [spec.engine_code for spec in specs if spec.engine_code is not None]
    ctranslate2 = [spec.ctranslate2_code for spec in specs if spec.ctranslate2_code is not None]
    names = [name for spec in specs for name in spec.hugging_face_names]
    for values in (engine, ctranslate2, names):
        assert len(set(values)) == len(values)


def test_unknown_activation_is_refused() -> None:
    settings = {"kind": "dense", "activation": "sliu"}
    with pytest.raises(ConfigError, match="did you mean 'silu'"):
        validate(FeedForwardSpec, settings, "recipe.yaml")
    with pytest.raises(ConfigError, match="the key 'gate' was renamed to 'activation'"):
        validate(FeedForwardSpec, {"kind": "gated", "gate": "silu"}, "recipe.yaml")
