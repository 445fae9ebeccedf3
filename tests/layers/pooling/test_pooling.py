"""Pooling: every kind leaves padding out, and what is special to each."""

import pytest
import torch

import regard
from regard.config import kinds
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import ModelSpec

KINDS = kinds("regard.layers.pooling")


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind: str) -> None:
    pool = PoolingSpec.model_validate(kind).build(8)
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter)
    states = torch.randn(2, 5, 8)
    token_mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    together = pool(states, token_mask)
    alone = pool(states[1:, :3], token_mask[1:, :3])
    assert together.shape == (2, 8)
    torch.testing.assert_close(together[1:], alone)


def test_attention_begins_as_the_mean_and_is_its_equation() -> None:
    pool = PoolingSpec.model_validate("attention").build(8)
    states, token_mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(pool(states, token_mask), states.mean(1))
    torch.nn.init.normal_(pool.query)
    weights = (states @ pool.query / 8**0.5).softmax(-1)
    torch.testing.assert_close(pool(states, token_mask), (weights[..., None] * states).sum(1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_of_every_kind_learns_with_all_it_has(kind: str) -> None:
    spec = ModelSpec.model_validate({"kind": "classifier", "size": "tiny", "pooling": kind})
    model = spec.build(50)
    ids = torch.randint(50, (3, 7))
    logits = model(ids, torch.ones_like(ids, dtype=torch.bool))
    (logits * torch.randn_like(logits)).sum().backward()
    assert all(each.grad is not None and each.grad.any() for each in model.parameters())
    names = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert names - {"pool"} == {"encoder", "output"}


def test_what_pooling_looks_at_can_be_watched() -> None:
    spec = ModelSpec.model_validate({"kind": "classifier", "size": "tiny", "pooling": "attention"})
    model = spec.build(50).eval()
    torch.nn.init.normal_(model.pool.query)
    ids, token_mask = torch.randint(50, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    with regard.watch(model) as seen, torch.inference_mode():
        watched = model(ids, token_mask)
    weights = seen.weights("pool")
    assert weights.shape == (2, 1, 1, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 1))
    torch.testing.assert_close(watched, model(ids, token_mask))
