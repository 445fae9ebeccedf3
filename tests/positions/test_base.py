"""The contract of positions: effect on order, gradients, positions by token."""

import pytest
import torch
from torch import nn

from regard.config import kinds
from regard.models.base import ModelSpec
from regard.models.encoder import Encoder
from regard.positions.base import PositionSpec
from regard.positions.learned import Learned
from regard.positions.sinusoidal import Sinusoidal

# Kinds that need trees are tested in test_syntax.
KINDS = [k for k in kinds("regard.positions") if not PositionSpec.model_validate(k).needs_trees]


def encoder(position: str) -> Encoder:
    spec = ModelSpec.model_validate({"kind": "encoder", "size": "tiny", "position": position})
    model = spec.build(20).eval()
    assert isinstance(model, Encoder)
    return model


@pytest.mark.parametrize("length", [4, 40])
def test_absolute_encodings_accept_positions_by_token(length: int) -> None:
    positions = torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]])
    for table in (Sinusoidal(8, 10_000, "halves", length), Learned(8, 40)):
        encoded = table(torch.zeros(2, 5, 8), positions)
        for row, row_positions in enumerate(positions.tolist()):
            for column, position in enumerate(row_positions):
                expected = table(torch.zeros(1, 1, 8), position)[0, 0]
                assert torch.allclose(encoded[row, column], expected, atol=1e-6)


def test_encoder_without_positions_is_permutation_equivariant() -> None:
    model, ids, order = encoder("none"), torch.randint(0, 20, (1, 9)), torch.randperm(9)
    assert torch.allclose(model(ids)[:, order], model(ids[:, order]), atol=1e-5)


@pytest.mark.parametrize("position", [kind for kind in KINDS if kind != "none"])
def test_encoder_with_positions_depends_on_order(position: str) -> None:
    model, ids = encoder(position), torch.randint(0, 20, (1, 9))
    order = torch.tensor([1, 0, *range(2, 9)])
    difference = (model(ids)[:, order] - model(ids[:, order])).abs().max()
    assert difference > 1e-2


@pytest.mark.parametrize("position", ["relative", "rotary", "alibi"])
def test_relative_kinds_do_not_depend_on_absolute_position(position: str) -> None:
    """The same tokens after padding have the same outputs."""
    model, ids = encoder(position), torch.randint(0, 20, (1, 5))
    shifted = torch.cat([torch.zeros(1, 4, dtype=torch.long), ids], dim=1)
    token_mask = torch.tensor([[False] * 4 + [True] * 5])
    assert torch.allclose(model(ids), model(shifted, token_mask)[:, 4:], atol=1e-5)


@pytest.mark.parametrize("position", KINDS)
def test_gradients_reach_every_parameter(position: str) -> None:
    model: nn.Module = encoder(position)
    model(torch.randint(0, 20, (4, 9))).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
