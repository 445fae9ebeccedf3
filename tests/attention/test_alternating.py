"""Alternating attention kinds by layer: order, capabilities, errors."""

import pytest

from regard.attention.alternating import Spec as Alternating
from regard.attention.base import AttentionSpec
from regard.attention.block_local import BlockLocal
from regard.attention.compressed import Compressed
from regard.config import plain, validate
from regard.errors import ConfigError
from regard.positions.base import Sizes

B, H, K = 2, 4, 8

SIZES = Sizes(dim=H * K, heads=H, head_dim=K, max_length=64)


def test_layers_repeat_the_pattern() -> None:
    stack = Alternating().stack(SIZES, 5)
    assert [type(layer) for layer in stack] == [
        BlockLocal,
        Compressed,
        BlockLocal,
        Compressed,
        BlockLocal,
    ]
    assert len({id(layer) for layer in stack}) == 5
    spec = validate(
        AttentionSpec, {"kind": "alternating", "pattern": ["linear", "fused"]}, "a test"
    )
    assert validate(AttentionSpec, plain(spec), "a test") == spec
    spec.require(frozenset({"cross", "cache"}), "a decoder")


@pytest.mark.parametrize("pattern", [["block-local", "linear"], ["fused", "linformer"]])
def test_every_kind_of_the_pattern_must_support_the_capabilities(pattern: list[str]) -> None:
    spec = validate(AttentionSpec, {"kind": "alternating", "pattern": pattern}, "a test")
    with pytest.raises(ConfigError, match=r"model.attention.pattern.\d: '.*' cannot"):
        spec.require(frozenset({"cross", "cache"}), "a decoder")


def test_empty_pattern_and_unknown_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"pattern: .*at least 1 item"):
        validate(AttentionSpec, {"kind": "alternating", "pattern": []}, "a test")
    with pytest.raises(ConfigError, match="there is no kind 'block', did you mean 'block-local'"):
        validate(AttentionSpec, {"kind": "alternating", "pattern": ["block"]}, "a test")
