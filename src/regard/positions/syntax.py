"""Positions on the dependency tree of a sentence (after Wang, Tu, Wang and Shi 2019).

    absolute    x_i + a[depth(i)]                             the steps from word i up to its root
    relative    e_ij = q_i · (k_j + r[c(tree(i, j))]) / √K    c(d) = max(−clip, min(clip, d))

tree(i, j) is what `trees.distances` says: the difference in depth where one word is above the
other, else the length of the path between them, with the sign of their order. Both stand beside
positions of another kind, `linear`; where that is `none` only the tree is given, without the sign,
and an encoder cannot tell in which order the words came (tested).

The vectors a and r are learned; r, as Shaw's, is shared by the heads of a layer. Pieces outside
all trees have no depth, and a vector r of their own.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import kind_field
from regard.errors import ConfigError, DataError
from regard.positions.base import AtEmbedding, InAttention, PositionSpec, Sizes
from regard.positions.relative import scores_by
from regard.positions.trees import APART, OUTSIDE, Trees


class Depth(AtEmbedding):
    """A vector for each depth, added to what `linear` adds, or joined with it by a matrix."""

    def __init__(self, linear: AtEmbedding, dim: int, deepest: int, concat: bool) -> None:
        super().__init__()
        self.linear = linear
        self.table = nn.Parameter(torch.randn(deepest + 1, dim) * 0.5)
        self.join = nn.Linear(2 * dim, dim, bias=False) if concat else None

    def on(self, trees: Trees | None) -> AtEmbedding:
        return _Deep(self, _given(trees))

    def place(self, x: Tensor, places: int | Tensor, depths: Tensor) -> Tensor:
        """x (B, T, D), each at its depth (B, T)."""
        vectors = self.table[depths.clamp(0, len(self.table) - 1)].to(x.dtype)
        vectors = vectors.masked_fill((depths == OUTSIDE)[..., None], 0.0)
        if self.join is None:
            placed: Tensor = self.linear(x, places)
            return placed + vectors
        in_line = self.linear(torch.zeros_like(x), places)
        joined: Tensor = self.join(torch.cat([in_line, vectors], dim=-1))
        return x + joined


class _Deep(AtEmbedding):
    """Depths in the trees of one call."""

    def __init__(self, depth: Depth, trees: Trees) -> None:
        super().__init__()
        self.depth, self.trees = depth, trees

    def forward(self, x: Tensor, places: int | Tensor) -> Tensor:
        return self.depth.place(x, places, self.trees.depths)


class Path(InAttention):
    """A vector for each distance on the tree, beside what `linear` does."""

    def __init__(self, linear: InAttention, head_dim: int, clip: int, ordered: bool) -> None:
        super().__init__()
        self.linear, self.clip, self.ordered = linear, clip, ordered
        self.weighs_values = linear.weighs_values
        vectors = 2 * clip + 2  # the last is for what is apart
        self.to_keys = nn.Parameter(torch.randn(vectors, head_dim) / math.sqrt(head_dim))

    def on(self, trees: Trees | None) -> InAttention:
        return _Paths(self, _given(trees))

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.linear.rotate(x, positions)

    def score(self, q: Tensor, distances: Tensor) -> Tensor:
        """q · r / √K (B, H, T, S) by distance on the tree (B, T, S)."""
        index = distances.clamp(-self.clip, self.clip) + self.clip
        index = index.masked_fill(distances == APART, len(self.to_keys) - 1)
        return scores_by(self.to_keys, q, index[:, None])

    def retain_heads(self, heads: Sequence[int]) -> None:
        self.linear.retain_heads(heads)


class _Paths(InAttention):
    """Distances on the trees of one call."""

    def __init__(self, path: Path, trees: Trees) -> None:
        super().__init__()
        self.path, self.trees = path, trees
        self.weighs_values = path.weighs_values

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.path.rotate(x, positions)

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        trees = self.trees
        distances = trees.ordered_distances if self.path.ordered else trees.distances
        by_tree = self.path.score(q, distances[:, queries[:, None], keys[None, :]])
        in_line = self.path.linear.bias(q, queries, keys)
        return by_tree if in_line is None else by_tree + in_line

    def values(self, weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        return self.path.linear.values(weights, queries, keys)


def _given(trees: Trees | None) -> Trees:
    if trees is None:
        raise DataError(
            "this model places words in dependency trees (position: syntax), and these have none: "
            "give it sentences with their trees, as CoNLL-U has them."
        )
    return trees


class Spec(PositionSpec):
    """position: {kind: syntax, linear: sinusoidal}"""

    requires: ClassVar[frozenset[str]] = frozenset({"bias", "values", "trees"})
    needs_trees: ClassVar[bool] = True

    absolute: bool = Field(True, description="a vector for how deep in its tree a word stands")
    relative: bool = Field(True, description="a vector for how far on the tree two words are")
    linear: PositionSpec = kind_field(PositionSpec, "a kind beside it that tells the order")
    join: Literal["add", "concat"] = Field(
        "add", description="depth is added to a linear position, or both are mapped to one"
    )
    deepest: int = Field(32, gt=0, description="depths beyond this count as this")
    clip: int = Field(16, gt=0, description="distances on the tree beyond this count as this")

    @model_validator(mode="after")
    def _something_of_the_tree(self) -> Self:
        if not (self.absolute or self.relative):
            raise ValueError("syntax needs absolute or relative positions, or both")
        if self.linear.needs_trees:
            raise ValueError("linear: a kind that tells the order of words, not syntax again")
        if self.join == "concat" and not self.absolute:
            raise ValueError("join: concat is for absolute positions, and there are none")
        return self

    def at_embedding(self, sizes: Sizes) -> AtEmbedding:
        linear = self.linear.at_embedding(sizes)
        if not self.absolute:
            return linear
        if self.join == "concat" and type(linear) is AtEmbedding:
            raise ConfigError(
                f"model.position.join: concat joins two positions of the embedding, and linear "
                f"'{self.linear.kind()}' has none there: use add, or linear: sinusoidal."
            )
        return Depth(linear, sizes.dim, self.deepest, self.join == "concat")

    def in_attention(self, sizes: Sizes) -> InAttention:
        linear = self.linear.in_attention(sizes)
        if not self.relative:
            return linear
        return Path(linear, sizes.head_dim, self.clip, ordered=self.linear.kind() != "none")
