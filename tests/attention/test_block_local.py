"""Local attention in blocks: full attention under the mask of equal blocks, and kinds by turns."""

import pytest
import torch

from regard.attention.alternating import Spec as Alternating
from regard.attention.base import AttentionSpec
from regard.attention.block_local import BlockLocal
from regard.attention.compressed import Compressed
from regard.attention.masks import AttentionMask, Causal, Full
from regard.attention.reference import dot_product_attention
from regard.config import kinds, plain, validate
from regard.errors import ConfigError
from regard.positions.base import PositionSpec, Sizes

B, H, K = 2, 4, 8
SIZES = Sizes(dim=H * K, heads=H, head_dim=K, max_length=64)


@pytest.mark.parametrize("size", [1, 3, 4, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("position", kinds("regard.positions"))
def test_equal_to_the_same_mask_applied_densely(size: int, causal: bool, position: str) -> None:
    length = 11
    place = PositionSpec.model_validate(position).in_attention(SIZES)
    given = [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]
    i, j = torch.arange(length)[:, None], torch.arange(length)
    visible = (i // size == j // size) & ((j <= i) | (not causal))
    token_mask = torch.arange(length) < torch.tensor([[11], [6]])
    mask = AttentionMask(Causal() if causal else Full(), j, j, token_mask)
    ours = BlockLocal(size)(*given, mask, place)
    bias = place.bias(given[0], j, j)
    theirs, weights = dot_product_attention(*given, visible & token_mask[:, None, None], bias)
    moved = place.values(weights, j, j)
    theirs = theirs if moved is None else theirs + moved
    assert torch.allclose(ours, theirs, atol=1e-5)
    toward = torch.randn_like(ours)
    gradients = (torch.autograd.grad((each * toward).sum(), given) for each in (ours, theirs))
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_layers_take_turns_from_the_first() -> None:
    stack = Alternating().stack(SIZES, 5)
    assert [type(each) for each in stack] == [
        BlockLocal,
        Compressed,
        BlockLocal,
        Compressed,
        BlockLocal,
    ]
    assert len({id(each) for each in stack}) == 5
    spec = validate(
        AttentionSpec, {"kind": "alternating", "pattern": ["linear", "fused"]}, "a test"
    )
    assert validate(AttentionSpec, plain(spec), "a test") == spec
    spec.require(frozenset({"cross", "cache"}), "a decoder")


@pytest.mark.parametrize("pattern", [["block-local", "linear"], ["fused", "linformer"]])
def test_all_of_them_are_asked(pattern: list[str]) -> None:
    spec = validate(AttentionSpec, {"kind": "alternating", "pattern": pattern}, "a test")
    with pytest.raises(ConfigError, match=r"'alternating' cannot use this pattern: .* cannot"):
        spec.require(frozenset({"cross", "cache"}), "a decoder")


def test_none_is_no_kind() -> None:
    with pytest.raises(ConfigError, match=r"pattern: .*at least 1 item"):
        validate(AttentionSpec, {"kind": "alternating", "pattern": []}, "a test")
    with pytest.raises(ConfigError, match="there is no kind 'block', did you mean 'block-local'"):
        validate(AttentionSpec, {"kind": "alternating", "pattern": ["block"]}, "a test")
