"""Positional representations: three points at which a kind can add order to a Transformer.

1. added to the embedding          sinusoidal, learned
2. rotating queries and keys       rotary
3. biasing the scores              ALiBi, relative (which also adds to the values)

Shapes: B batch, T queries, S keys, H heads, K head size, D model size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from regard.config import Kind
from regard.positions.trees import Trees


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model that a kind of attention or position may need."""

    dim: int
    heads: int
    head_dim: int
    max_length: int
    kv_heads: int | None = None  # fewer than heads in grouped-query attention


class AtEmbedding(nn.Module):
    """Positions added to the embeddings. The base class adds nothing."""

    def forward(self, x: Tensor, positions: int | Tensor) -> Tensor:
        """Add positions to x (B, T, D).

        `positions` is the position of the first token, or those of all tokens (B, T), for rows with
        several documents.
        """
        return x

    def on(self, trees: Trees | None) -> "AtEmbedding":
        """Return the positions for these dependency trees; itself if the kind needs none."""
        return self


class InAttention(nn.Module):
    """Positions inside self-attention: rotation or bias. The base class changes nothing."""

    weighs_values = False  # True if `values` adds something, which needs the weights

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys x (B, H, T, K) at `positions` (T,)."""
        return x

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Return the bias of the scaled scores, broadcastable to (B, H, T, S), or None."""
        return None

    def values(self, weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Return the term added to the output (B, H, T, K), given the weights (B, H, T, S)."""
        return None

    def on(self, trees: Trees | None) -> "InAttention":
        """Return the positions for these dependency trees; itself if the kind needs none."""
        return self

    def retain_heads(self, heads: Sequence[int]) -> None:
        """Remove all other heads. Parameters that heads share do not change."""


class PositionSpec(Kind, package="regard.positions", default="sinusoidal"):
    """A kind of positional representation. `requires` lists the capabilities (`CAPABILITIES` in
    attention/base.py) that its attention must support."""

    requires: ClassVar[frozenset[str]] = frozenset()
    needs_trees: ClassVar[bool] = False  # True if the input must have dependency trees

    def at_embedding(self, sizes: Sizes) -> AtEmbedding:
        return AtEmbedding()

    def in_attention(self, sizes: Sizes) -> InAttention:
        return InAttention()
