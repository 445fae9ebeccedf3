"""Different kinds of attention in the layers of one stack, in turn: local and memory-compressed in
the decoder of Liu et al. (2018), so that each covers the keys that the other cannot attend to."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from regard.attention import block_local, compressed
from regard.attention.base import Attention, AttentionSpec
from regard.positions.base import Sizes


class Spec(AttentionSpec):
    """attention: {kind: alternating, pattern: [{kind: block-local, size: 256}, compressed]}"""

    # Capabilities of the default pattern; `require` checks the kinds of any other.
    supports: ClassVar[frozenset[str]] = block_local.Spec.supports & compressed.Spec.supports

    renamed_keys: ClassVar[Mapping[str, str]] = {"of": "pattern"}

    pattern: tuple[AttentionSpec, ...] = Field(
        default_factory=lambda: (block_local.Spec(), compressed.Spec()),
        min_length=1,
        description="kinds in attention/, one for each layer from the first, then repeated",
    )

    def build(self, sizes: Sizes) -> Attention:
        return self.stack(sizes, 1)[0]

    def stack(self, sizes: Sizes, layers: int) -> list[Attention]:
        period = len(self.pattern)
        stacks = [kind.stack(sizes, -(-layers // period)) for kind in self.pattern]
        return [stacks[layer % period][layer // period] for layer in range(layers)]

    def require(self, capabilities: frozenset[str], who: str, key: str = "model.attention") -> None:
        for number, kind in enumerate(self.pattern):
            kind.require(capabilities, who, f"{key}.pattern.{number}")
