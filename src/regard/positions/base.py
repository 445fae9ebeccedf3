"""Where order enters a Transformer: three sites, and a kind uses one or two of them.

1. added to the embedding          sinusoidal, learned
2. rotating queries and keys       rotary
3. biasing the scores              ALiBi, relative (which also adds to the values)

Shapes: B batch, T queries, S keys, H heads, K key size, D model size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from regard.config import Kind
from regard.positions.trees import Trees


@dataclass(frozen=True)
class Sizes:
    """What a kind may need to know of the model it serves."""

    dim: int
    heads: int
    head_dim: int
    max_length: int
    kv_heads: int | None = None  # fewer than heads where several share their keys and values


class AtEmbedding(nn.Module):
    """Site 1: added to the embeddings. The neutral one adds nothing."""

    def forward(self, x: Tensor, places: int | Tensor) -> Tensor:
        """x (B, T, D), whose first word stands at this place; or each at its own, (B, T), where
        documents of a row begin anew."""
        return x

    def on(self, trees: Trees | None) -> "AtEmbedding":
        """The same for words of these trees: what asks for none is the same for all."""
        return self


class InAttention(nn.Module):
    """Sites 2 and 3: inside self-attention. The neutral one changes nothing."""

    weighs_values = False  # True where `values` adds something: the weights must then be worked out

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys x (B, H, T, K), standing at `positions` (T,)."""
        return x

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        """What is added to the scaled scores: broadcastable to (B, H, T, S)."""
        return None

    def values(self, weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        """What is added to the output (B, H, T, K), given the weights (B, H, T, S)."""
        return None

    def on(self, trees: Trees | None) -> "InAttention":
        """The same for words of these trees: what asks for none is the same for all."""
        return self

    def retain_heads(self, heads: Sequence[int]) -> None:
        """Only these heads go on. What all heads share stays as it is."""


class PositionSpec(Kind, package="regard.positions", default="sinusoidal"):
    """A kind of position representation. `needs` says what it asks of the attention it is in."""

    requires: ClassVar[frozenset[str]] = frozenset()
    needs_trees: ClassVar[bool] = False  # must words come with their dependency trees?

    def at_embedding(self, sizes: Sizes) -> AtEmbedding:
        return AtEmbedding()

    def in_attention(self, sizes: Sizes) -> InAttention:
        return InAttention()
