"""Attention pooling: the equation and recorded weights."""

import torch

import regard
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import ModelSpec


def test_initial_output_is_the_mean_and_output_matches_equation() -> None:
    pool = PoolingSpec.model_validate("attention").build(8)
    states, token_mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(pool(states, token_mask), states.mean(1))
    torch.nn.init.normal_(pool.query)
    weights = (states @ pool.query / 8**0.5).softmax(-1)
    torch.testing.assert_close(pool(states, token_mask), (weights[..., None] * states).sum(1))


def test_pooling_weights_are_recorded() -> None:
    spec = ModelSpec.model_validate({"kind": "classifier", "size": "tiny", "pooling": "attention"})
    model = spec.build(50).eval()
    torch.nn.init.normal_(model.pool.query)
    ids, token_mask = torch.randint(50, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    with regard.watch(model) as seen, torch.inference_mode():
        recorded = model(ids, token_mask)
    weights = seen.weights("pool")
    assert weights.shape == (2, 1, 1, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 1))
    torch.testing.assert_close(recorded, model(ids, token_mask))
