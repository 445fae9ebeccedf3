"""The contract of pooling: every kind ignores padding and is trained in a classifier."""

import pytest
import torch

from regard.config import kinds
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import ModelSpec

KINDS = kinds("regard.layers.pooling")


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_change_outputs(kind: str) -> None:
    pool = PoolingSpec.model_validate(kind).build(8)
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter)
    states = torch.randn(2, 5, 8)
    token_mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    together = pool(states, token_mask)
    alone = pool(states[1:, :3], token_mask[1:, :3])
    assert together.shape == (2, 8)
    torch.testing.assert_close(together[1:], alone)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_parameter_of_a_classifier(kind: str) -> None:
    spec = ModelSpec.model_validate({"kind": "classifier", "size": "tiny", "pooling": kind})
    model = spec.build(50)
    ids = torch.randint(50, (3, 7))
    logits = model(ids, torch.ones_like(ids, dtype=torch.bool))
    (logits * torch.randn_like(logits)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    names = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert names - {"pool"} == {"encoder", "output"}
