"""LoRA: equation, initialization, merging and refused settings."""

from typing import Any

import pytest
import torch
from torch import nn

from regard.engine.library import library
from regard.engine.select import EngineModel
from regard.errors import ConfigError
from regard.models.adapters.base import AdapterSpec
from regard.models.adapters.lora import LoRALinear
from regard.models.base import ModelSpec

SMALL = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 2, "max_length": 12, "dropout": 0.0}
KINDS = ["encoder", "classifier", "language-model", "encoder-decoder"]


def built(kind: str, **more: Any) -> nn.Module:
    torch.manual_seed(1)
    return ModelSpec.model_validate({"kind": kind, **SMALL, **more}).build(20).eval()


def adapter(**settings: Any) -> AdapterSpec:
    return AdapterSpec.model_validate({"rank": 3, "alpha": 6, **settings})


def logits_of(model: nn.Module, kind: str) -> torch.Tensor:
    ids = torch.arange(1, 11).view(2, 5)
    token_mask = torch.ones_like(ids, dtype=torch.bool)
    inputs = {"language-model": (ids,), "encoder-decoder": (ids, token_mask, ids)}.get(
        kind, (ids, token_mask)
    )
    return model(*inputs)


def learn(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, LoRALinear):
            nn.init.normal_(module.b, std=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_attached_adapter_does_not_change_outputs(kind: str) -> None:
    model = built(kind)
    before = logits_of(model, kind)
    adapter(on=["attention", "feed_forward"]).attach(model)
    parameters = dict(model.named_parameters())
    assert any(name.endswith("w_k.a") for name in parameters)
    assert torch.equal(logits_of(model, kind), before)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_output_equals_the_lora_equation(dropout: float) -> None:
    """y = W x + b + (alpha / rank) B A x; dropout is on the input of A only."""
    torch.manual_seed(2)
    linear = nn.Linear(7, 5)
    model = LoRALinear(linear, rank=2, scale=4 / 2, dropout=dropout).double().eval()
    nn.init.normal_(model.b)
    x = torch.randn(3, 7, dtype=torch.double)
    a, b, w, bias = (tensor.detach() for tensor in (model.a, model.b, linear.weight, linear.bias))
    for row in range(3):
        for out in range(5):
            expected = bias[out] + sum(w[out, i] * x[row, i] for i in range(7))
            inner = [sum(a[r, i] * x[row, i] for i in range(7)) for r in range(2)]
            expected = expected + (4 / 2) * sum(b[out, r] * inner[r] for r in range(2))
            torch.testing.assert_close(model(x)[row, out], expected)
    if dropout:
        model.train()
        drawn = torch.stack([model(x) for _ in range(1000)])
        torch.testing.assert_close(drawn.mean(0), model.eval()(x), rtol=0.1, atol=0.6)
        assert drawn.std(0).min() > 0.1


def test_gradients_equal_those_of_the_full_matrix() -> None:
    """dA = s Bᵀ G and dB = s G Aᵀ, where G is the gradient that W would have had."""
    torch.manual_seed(3)
    model = LoRALinear(nn.Linear(6, 4), rank=2, scale=0.5, dropout=0.0).double()
    nn.init.normal_(model.b)
    x, up = torch.randn(9, 6, dtype=torch.double), torch.randn(9, 4, dtype=torch.double)
    (model(x) * up).sum().backward()
    whole = up.T @ x
    torch.testing.assert_close(model.a.grad, 0.5 * model.b.detach().T @ whole)
    torch.testing.assert_close(model.b.grad, 0.5 * whole @ model.a.detach().T)


@pytest.mark.parametrize("kind", KINDS)
def test_merged_model_has_no_adapter_and_the_same_outputs(kind: str) -> None:
    model, spec = built(kind), adapter(on=["w_q", "w_v", "w_o", "down_proj"])
    names = list(dict(model.named_parameters()))
    before = logits_of(model, kind)
    spec.attach(model)
    learn(model)
    adapted = logits_of(model, kind)
    assert (adapted - before).abs().max() > 0.01
    spec.merge(model)
    assert list(dict(model.named_parameters())) == names
    torch.testing.assert_close(logits_of(model, kind), adapted, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(library() is None, reason="the engine is not built")
def test_engine_decodes_like_the_adapted_model() -> None:
    model = built("language-model")
    adapter(on=["w_q", "w_v", "up_proj"]).attach(model)
    ids = torch.tensor([3, 5])
    engine_model = EngineModel(model, capacity=12)
    for _ in range(2):
        learn(model)  # the engine notices that the weights are others now
        assert engine_model.uses_engine
        with torch.inference_mode():
            model_logits, _ = model.step(ids, model.start())
        engine = engine_model.current
        engine_logits = torch.from_numpy(engine.step(ids.numpy(), engine.start())[0])
        torch.testing.assert_close(engine_logits, model_logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on": ["w_x"]}, r"adapter\.on: nothing in this model is called 'w_x'; did you mean 'w_"),
        ({"on": ["embedding"]}, r"adapter\.on: nothing in this model is called 'embedding'"),
        (
            {"rank": 17},
            r"adapter\.rank: 17 is more than the rank of .*w_q, which is 16 × 16; set it to 16 at",
        ),
        ({"on": ["output"]}, r"adapter\.on: decoder\.output shares its weights with an embedding"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        adapter(**settings).attach(built("language-model"))


def test_untied_output_layer_can_be_adapted() -> None:
    model = built("language-model", tie_embeddings=False)
    adapter(on=["output"]).attach(model)
    assert isinstance(model.decoder.output, LoRALinear)
