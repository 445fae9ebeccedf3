"""Positions on a tree: by their equation, and what they tell an encoder of order."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.config import plain, validate
from regard.errors import ConfigError, DataError
from regard.insight.watch import watch
from regard.models.base import ModelSpec
from regard.models.encoder import Encoder
from regard.positions.base import PositionSpec, Sizes
from regard.positions.syntax import Depth, Path
from regard.positions.trees import DISCONNECTED, OUTSIDE, Trees

SIZES = Sizes(dim=16, heads=4, head_dim=4, max_length=32)
WORDS = 7


def spec(**given: Any) -> PositionSpec:
    return validate(PositionSpec, {"kind": "syntax", **given}, "position")


def encoder(**position: Any) -> Encoder:
    given = {"kind": "encoder", "size": "tiny", "position": {"kind": "syntax", **position}}
    model = validate(ModelSpec, given, "model").build(20).eval()
    assert isinstance(model, Encoder)
    return model


def some_trees(rows: int = 2) -> Trees:
    """Each word hangs on one before it, in an order drawn for each row."""
    heads = torch.zeros(rows, WORDS, dtype=torch.long)
    for row in range(rows):
        order = torch.randperm(WORDS)
        for at, word in enumerate(order):
            heads[row, word] = order[torch.randint(max(at, 1), ())]
    return Trees(torch.arange(WORDS).expand(rows, WORDS), heads)


def permuted(ids: Tensor, trees: Trees, order: Tensor) -> tuple[Tensor, Trees]:
    """Words in another order, with their trees: word order[i] is now the i-th."""
    place = order.argsort()
    return ids[:, order], Trees(trees.words, place[trees.heads[:, order]])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"linear": "none"},
        {"absolute": False, "linear": "rotary"},
        {"relative": False, "join": "concat"},
        {"linear": {"kind": "relative", "clip": 2}, "clip": 3, "deepest": 2},
    ],
)
def test_every_way_trains_and_is_the_same_watched(given: dict[str, Any]) -> None:
    assert validate(PositionSpec, plain(spec(**given)), "position") == spec(**given)
    model, trees, ids = encoder(**given), some_trees(), torch.randint(0, 20, (2, WORDS))
    states = model(ids, None, trees)
    states.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
    with torch.no_grad(), watch(model) as seen:
        assert torch.allclose(model(ids, None, trees), states, atol=1e-5)
    assert len(seen.names()) == 2


def test_relative_positions_are_the_sum_written_out() -> None:
    path, trees = spec(clip=2).in_attention(SIZES).requires_grad_(False), some_trees()
    assert isinstance(path, Path)
    q, positions = torch.randn(2, 4, WORDS, 4), torch.arange(WORDS)
    bias = path.on(trees).bias(q[:, :, 2:], positions[2:], positions)  # any queries, any keys
    assert bias is not None
    for i in range(2, WORDS):
        for j in range(WORDS):
            d = int(trees.ordered_distances[1, i, j])
            index = max(-2, min(2, d)) + 2
            expected = float(q[1, 3, i] @ path.to_keys[index]) / math.sqrt(4)
            assert bias[1, 3, i - 2, j].item() == pytest.approx(expected, abs=1e-6)


def test_depths_are_added_or_joined() -> None:
    trees, x = some_trees(), torch.randn(2, WORDS, 16)
    linear = PositionSpec.model_validate("sinusoidal").at_embedding(SIZES)
    added, joined = (spec(join=way, deepest=2).at_embedding(SIZES) for way in ("add", "concat"))
    assert isinstance(added, Depth)
    assert isinstance(joined, Depth)
    vectors = added.table[trees.depths.clamp(max=2)]
    assert torch.allclose(added.on(trees)(x, 0), linear(x, 0) + vectors, atol=1e-6)
    assert joined.join is not None
    both = torch.cat([linear(torch.zeros_like(x), 0), joined.table[trees.depths.clamp(max=2)]], -1)
    assert torch.allclose(joined.on(trees)(x, 0), x + joined.join(both), atol=1e-6)


def test_what_is_outside_has_no_depth_and_a_distance_of_its_own() -> None:
    words = torch.tensor([[OUTSIDE, *range(WORDS), OUTSIDE]])
    trees = Trees(words, some_trees(1).heads)
    x = torch.randn(1, WORDS + 2, 16)
    placed = spec(linear="none").at_embedding(SIZES).on(trees)(x, 0)
    assert torch.equal(placed[:, [0, -1]], x[:, [0, -1]])
    path, q = spec().in_attention(SIZES), torch.randn(1, 4, WORDS + 2, 4)
    assert isinstance(path, Path)
    positions = torch.arange(WORDS + 2)
    bias = path.on(trees).bias(q, positions, positions)
    assert bias is not None
    assert (trees.distances[:, 0] == DISCONNECTED).all()
    assert torch.allclose(bias[..., 0], q @ path.to_keys[-1] / 2, atol=1e-6)


def test_where_only_the_tree_is_given_order_does_not_matter() -> None:
    """Words permuted with their trees: the states are permuted, and nothing else."""
    model, trees, ids = encoder(linear="none"), some_trees(), torch.randint(0, 20, (2, WORDS))
    order = torch.randperm(WORDS)
    moved = model(*_call(permuted(ids, trees, order)))
    assert torch.allclose(model(ids, None, trees)[:, order], moved, atol=1e-5)


def test_order_matters_again_with_linear_positions_beside() -> None:
    trees, ids = some_trees(), torch.randint(0, 20, (2, WORDS))
    order = torch.arange(WORDS).roll(1)
    for given in ({}, {"absolute": False, "linear": "rotary"}):
        model = encoder(**given)
        moved = model(*_call(permuted(ids, trees, order)))
        assert (model(ids, None, trees)[:, order] - moved).abs().max() > 1e-2


def test_another_tree_is_another_meaning() -> None:
    model, ids = encoder(linear="none"), torch.randint(0, 20, (1, WORDS))
    chain = Trees(torch.arange(WORDS)[None], (torch.arange(WORDS)[None] - 1).clamp(min=0))
    bush = Trees(torch.arange(WORDS)[None], torch.zeros(1, WORDS, dtype=torch.long))
    assert (model(ids, None, chain) - model(ids, None, bush)).abs().max() > 1e-2


def test_padding_and_the_rows_beside_change_nothing() -> None:
    model, trees, ids = encoder(), some_trees(), torch.randint(0, 20, (2, WORDS))
    alone = model(ids[:1], None, Trees(trees.words[:1], trees.heads[:1]))
    wider = torch.nn.functional.pad(ids, (0, 3))
    token_mask = torch.arange(WORDS + 3) < WORDS
    words = torch.nn.functional.pad(trees.words, (0, 3), value=OUTSIDE)
    heads = torch.nn.functional.pad(trees.heads, (0, 2))
    together = model(wider, token_mask.expand(2, -1), Trees(words, heads))
    assert torch.allclose(alone[0], together[0, :WORDS], atol=1e-5)


def _call(given: tuple[Tensor, Trees]) -> tuple[Tensor, None, Trees]:
    return given[0], None, given[1]


@pytest.mark.parametrize("given", [{}, {"absolute": False}, {"relative": False}])
def test_words_without_trees_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"trees \(position: syntax\), and the input has no trees"):
        encoder(**given)(torch.randint(0, 20, (1, 5)))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"absolute": False, "relative": False}, "needs absolute or relative"),
        ({"linear": "syntax"}, "not syntax again"),
        ({"join": "concat", "absolute": False}, "concat is for absolute"),
        ({"clip": 0}, "clip"),
        ({"tree": True}, "unknown key 'tree'"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        spec(**given)


@pytest.mark.parametrize("linear", ["none", "rotary"])
def test_there_must_be_two_to_be_joined(linear: str) -> None:
    with pytest.raises(ConfigError, match=f"linear '{linear}' has none there"):
        encoder(join="concat", linear=linear)


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_a_decoder_has_no_tree_of_what_is_to_come(kind: str) -> None:
    given = {"kind": kind, "size": "tiny", "position": "syntax"}
    with pytest.raises(ConfigError, match="a decoder has none for the tokens to come"):
        validate(ModelSpec, given, "model").build(20)
