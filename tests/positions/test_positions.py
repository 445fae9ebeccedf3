"""Positions: each by its equation, and what order means to a model that has them or not."""

import math

import pytest
import torch
from torch import nn

from regard.config import kinds
from regard.errors import ConfigError, DataError
from regard.models.base import ModelSpec
from regard.models.encoder import Encoder
from regard.positions.alibi import slopes
from regard.positions.base import PositionSpec, Sizes
from regard.positions.learned import Learned
from regard.positions.relative import Relative
from regard.positions.rotary import Rotary
from regard.positions.sinusoidal import Sinusoidal

# Those that read trees are asked in test_syntax.
KINDS = [k for k in kinds("regard.positions") if not PositionSpec.model_validate(k).needs_trees]


def encoder(position: str) -> Encoder:
    spec = ModelSpec.model_validate({"kind": "encoder", "size": "tiny", "position": position})
    model = spec.build(20).eval()
    assert isinstance(model, Encoder)
    return model


def test_sinusoids_are_the_lectures() -> None:
    table = Sinusoidal(dim=6, base=10_000, layout="interleaved", max_length=50)
    vectors = table(torch.zeros(1, 50, 6), 0)[0]
    for pos in (0, 1, 7, 49):
        for k in range(3):
            angle = pos / 10_000 ** (2 * k / 6)
            assert vectors[pos, 2 * k] == pytest.approx(math.sin(angle), abs=1e-6)
            assert vectors[pos, 2 * k + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_go_on_past_their_table() -> None:
    short = Sinusoidal(8, 10_000, "interleaved", max_length=4)
    long = Sinusoidal(8, 10_000, "interleaved", max_length=40)
    x = torch.zeros(1, 10, 8)
    assert torch.equal(short(x, 3), long(x, 3))


@pytest.mark.parametrize("length", [4, 40])
def test_each_word_at_a_place_of_its_own(length: int) -> None:
    places = torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]])
    for table in (Sinusoidal(8, 10_000, "halves", length), Learned(8, 40)):
        moved = table(torch.zeros(2, 5, 8), places)
        for row, here in enumerate(places.tolist()):
            for column, place in enumerate(here):
                expected = table(torch.zeros(1, 1, 8), place)[0, 0]
                assert torch.allclose(moved[row, column], expected, atol=1e-6)


@pytest.mark.parametrize("dim", [5, 8])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoids_fill_any_size(dim: int, layout: str) -> None:
    assert Sinusoidal(dim, 10_000, layout, 16)(torch.zeros(1, 9, dim), 0).shape == (1, 9, dim)


def test_learned_positions_end_with_a_clear_error() -> None:
    learned = Learned(dim=4, length=8)
    assert learned(torch.zeros(1, 3, 4), 5).shape == (1, 3, 4)
    with pytest.raises(DataError, match=r"learned 8 positions and the text has 9 tokens"):
        learned(torch.zeros(1, 3, 4), 6)


def test_relative_positions_are_shaws_sums_written_out() -> None:
    size, length, clip = 4, 6, 2
    relative = Relative(size, clip, on_values=True).requires_grad_(False)
    q, weights = torch.randn(1, 1, length, size), torch.rand(1, 1, length, length)
    positions = torch.arange(length)
    bias = relative.bias(q, positions, positions)
    moved = relative.values(weights, positions, positions)
    assert moved is not None
    for i in range(length):
        expected = torch.zeros(size)
        for j in range(length):
            index = max(-clip, min(clip, j - i)) + clip
            score = float(q[0, 0, i] @ relative.to_keys[index]) / math.sqrt(size)
            assert bias[0, 0, i, j].item() == pytest.approx(score, abs=1e-6)
            expected = expected + weights[0, 0, i, j] * relative.to_values[index]
        assert torch.allclose(moved[0, 0, i], expected, atol=1e-6)


def test_relative_positions_without_values_leave_them_alone() -> None:
    relative = Relative(4, 2, on_values=False)
    assert not relative.weighs_values
    assert relative.values(torch.rand(1, 1, 3, 3), torch.arange(3), torch.arange(3)) is None


@pytest.mark.parametrize("pairs", ["adjacent", "halves"])
def test_rotary_products_depend_on_distance_alone(pairs: str) -> None:
    rotary = Rotary(8, 10_000, pairs)
    q, k = torch.randn(2, 1, 1, 1, 8)
    products = [
        float((rotary.rotate(q, torch.tensor([i])) * rotary.rotate(k, torch.tensor([i - 3]))).sum())
        for i in (3, 10, 200)
    ]
    assert products == pytest.approx([products[0]] * 3, abs=1e-4)
    assert torch.allclose(rotary.rotate(q, torch.tensor([9])).norm(), q.norm(), atol=1e-5)
    assert torch.equal(rotary.rotate(q, torch.tensor([0])), q)


def test_rotary_needs_pairs() -> None:
    with pytest.raises(ConfigError, match="even"):
        PositionSpec.model_validate("rotary").in_attention(Sizes(9, 3, 3, 8))


def test_alibi_slopes_are_the_papers() -> None:
    assert slopes(8) == [2**-h for h in range(1, 9)]
    assert len(slopes(6)) == 6
    assert slopes(6)[:4] == slopes(4)


def test_without_positions_an_encoder_is_blind_to_order() -> None:
    model, ids, order = encoder("none"), torch.randint(0, 20, (1, 9)), torch.randperm(9)
    assert torch.allclose(model(ids)[:, order], model(ids[:, order]), atol=1e-5)


@pytest.mark.parametrize("position", [kind for kind in KINDS if kind != "none"])
def test_with_positions_it_sees_order(position: str) -> None:
    model, ids = encoder(position), torch.randint(0, 20, (1, 9))
    order = torch.tensor([1, 0, *range(2, 9)])
    difference = (model(ids)[:, order] - model(ids[:, order])).abs().max()
    assert difference > 1e-2


@pytest.mark.parametrize("position", ["relative", "rotary", "alibi"])
def test_positions_inside_attention_see_distance_not_place(position: str) -> None:
    """The same words later in the text, behind padding, mean the same."""
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
