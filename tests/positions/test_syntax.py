"""Syntax-aware positions: equations, effect on order, padding and errors."""

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
NUM_WORDS = 7


def spec(**settings: Any) -> PositionSpec:
    return validate(PositionSpec, {"kind": "syntax", **settings}, "position")


def encoder(**position: Any) -> Encoder:
    config = {"kind": "encoder", "size": "tiny", "position": {"kind": "syntax", **position}}
    model = validate(ModelSpec, config, "model").build(20).eval()
    assert isinstance(model, Encoder)
    return model


def some_trees(rows: int = 2) -> Trees:
    """Return random trees: in a random order, each word's head is an earlier word."""
    heads = torch.zeros(rows, NUM_WORDS, dtype=torch.long)
    for row in range(rows):
        order = torch.randperm(NUM_WORDS)
        for index, word in enumerate(order):
            heads[row, word] = order[torch.randint(max(index, 1), ())]
    return Trees(torch.arange(NUM_WORDS).expand(rows, NUM_WORDS), heads)


def permuted(ids: Tensor, trees: Trees, order: Tensor) -> tuple[Tensor, Trees]:
    """Permute words and their trees: word order[i] becomes the i-th."""
    new_positions = order.argsort()
    return ids[:, order], Trees(trees.words, new_positions[trees.heads[:, order]])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"linear": "none"},
        {"absolute": False, "linear": "rotary"},
        {"relative": False, "join": "concat"},
        {"linear": {"kind": "relative", "clip": 2}, "clip": 3, "deepest": 2},
    ],
)
def test_every_setting_trains_and_gives_the_same_outputs_when_recorded(
    settings: dict[str, Any],
) -> None:
    assert validate(PositionSpec, plain(spec(**settings)), "position") == spec(**settings)
    model, trees, ids = encoder(**settings), some_trees(), torch.randint(0, 20, (2, NUM_WORDS))
    states = model(ids, None, trees)
    states.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
    with torch.no_grad(), watch(model) as seen:
        assert torch.allclose(model(ids, None, trees), states, atol=1e-5)
    assert len(seen.names()) == 2


def test_relative_bias_matches_equation() -> None:
    path, trees = spec(clip=2).in_attention(SIZES).requires_grad_(False), some_trees()
    assert isinstance(path, Path)
    q, positions = torch.randn(2, 4, NUM_WORDS, 4), torch.arange(NUM_WORDS)
    bias = path.on(trees).bias(q[:, :, 2:], positions[2:], positions)  # any queries, any keys
    assert bias is not None
    for i in range(2, NUM_WORDS):
        for j in range(NUM_WORDS):
            d = int(trees.ordered_distances[1, i, j])
            index = max(-2, min(2, d)) + 2
            expected = float(q[1, 3, i] @ path.to_keys[index]) / math.sqrt(4)
            assert bias[1, 3, i - 2, j].item() == pytest.approx(expected, abs=1e-6)


def test_depths_are_added_or_concatenated() -> None:
    trees, x = some_trees(), torch.randn(2, NUM_WORDS, 16)
    linear = PositionSpec.model_validate("sinusoidal").at_embedding(SIZES)
    added, joined = (spec(join=join, deepest=2).at_embedding(SIZES) for join in ("add", "concat"))
    assert isinstance(added, Depth)
    assert isinstance(joined, Depth)
    vectors = added.table[trees.depths.clamp(max=2)]
    assert torch.allclose(added.on(trees)(x, 0), linear(x, 0) + vectors, atol=1e-6)
    assert joined.join is not None
    concatenated = torch.cat(
        [linear(torch.zeros_like(x), 0), joined.table[trees.depths.clamp(max=2)]], -1
    )
    assert torch.allclose(joined.on(trees)(x, 0), x + joined.join(concatenated), atol=1e-6)


def test_tokens_outside_the_tree_have_no_depth_and_their_own_distance() -> None:
    words = torch.tensor([[OUTSIDE, *range(NUM_WORDS), OUTSIDE]])
    trees = Trees(words, some_trees(1).heads)
    x = torch.randn(1, NUM_WORDS + 2, 16)
    encoded = spec(linear="none").at_embedding(SIZES).on(trees)(x, 0)
    assert torch.equal(encoded[:, [0, -1]], x[:, [0, -1]])
    path, q = spec().in_attention(SIZES), torch.randn(1, 4, NUM_WORDS + 2, 4)
    assert isinstance(path, Path)
    positions = torch.arange(NUM_WORDS + 2)
    bias = path.on(trees).bias(q, positions, positions)
    assert bias is not None
    assert (trees.distances[:, 0] == DISCONNECTED).all()
    assert torch.allclose(bias[..., 0], q @ path.to_keys[-1] / 2, atol=1e-6)


def test_without_linear_positions_order_does_not_matter() -> None:
    """Words permuted with their trees have permuted states."""
    model, trees, ids = encoder(linear="none"), some_trees(), torch.randint(0, 20, (2, NUM_WORDS))
    order = torch.randperm(NUM_WORDS)
    permuted_states = model(*_call(permuted(ids, trees, order)))
    assert torch.allclose(model(ids, None, trees)[:, order], permuted_states, atol=1e-5)


def test_with_linear_positions_order_matters() -> None:
    trees, ids = some_trees(), torch.randint(0, 20, (2, NUM_WORDS))
    order = torch.arange(NUM_WORDS).roll(1)
    for settings in ({}, {"absolute": False, "linear": "rotary"}):
        model = encoder(**settings)
        permuted_states = model(*_call(permuted(ids, trees, order)))
        assert (model(ids, None, trees)[:, order] - permuted_states).abs().max() > 1e-2


def test_outputs_depend_on_the_tree() -> None:
    model, ids = encoder(linear="none"), torch.randint(0, 20, (1, NUM_WORDS))
    chain = Trees(torch.arange(NUM_WORDS)[None], (torch.arange(NUM_WORDS)[None] - 1).clamp(min=0))
    star = Trees(torch.arange(NUM_WORDS)[None], torch.zeros(1, NUM_WORDS, dtype=torch.long))
    assert (model(ids, None, chain) - model(ids, None, star)).abs().max() > 1e-2


def test_padding_and_other_rows_do_not_change_outputs() -> None:
    model, trees, ids = encoder(), some_trees(), torch.randint(0, 20, (2, NUM_WORDS))
    alone = model(ids[:1], None, Trees(trees.words[:1], trees.heads[:1]))
    padded_ids = torch.nn.functional.pad(ids, (0, 3))
    token_mask = torch.arange(NUM_WORDS + 3) < NUM_WORDS
    words = torch.nn.functional.pad(trees.words, (0, 3), value=OUTSIDE)
    heads = torch.nn.functional.pad(trees.heads, (0, 2))
    together = model(padded_ids, token_mask.expand(2, -1), Trees(words, heads))
    assert torch.allclose(alone[0], together[0, :NUM_WORDS], atol=1e-5)


def _call(inputs: tuple[Tensor, Trees]) -> tuple[Tensor, None, Trees]:
    return inputs[0], None, inputs[1]


@pytest.mark.parametrize("settings", [{}, {"absolute": False}, {"relative": False}])
def test_text_without_trees_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"trees \(position: syntax\), and the input has no trees"):
        encoder(**settings)(torch.randint(0, 20, (1, 5)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"absolute": False, "relative": False}, "needs absolute or relative"),
        ({"linear": "syntax"}, "not syntax again"),
        ({"join": "concat", "absolute": False}, "concat is for absolute"),
        ({"clip": 0}, "clip"),
        ({"tree": True}, "unknown key 'tree'"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec(**settings)


@pytest.mark.parametrize("linear", ["none", "rotary"])
def test_concatenation_needs_linear_position_vectors(linear: str) -> None:
    with pytest.raises(ConfigError, match=f"linear '{linear}' has none there"):
        encoder(join="concat", linear=linear)


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_decoders_are_refused(kind: str) -> None:
    config = {"kind": kind, "size": "tiny", "position": "syntax"}
    with pytest.raises(ConfigError, match="a decoder has none for the tokens to come"):
        validate(ModelSpec, config, "model").build(20)
