"""Positions on the dependency tree of a sentence (after Wang, Tu, Wang and Shi 2019).

    absolute    x_i + a[depth(i)]                             depth: edges from word i to its root
    relative    e_ij = q_i · (k_j + r[c(tree(i, j))]) / √K    c(d) = max(−clip, min(clip, d))

tree(i, j) is computed by `trees.distances`: the difference in depth if one word is an ancestor of
the other, else the length of the path between them, with the sign of their order. Both are combined
with positions of another kind, `linear`; if that is `none`, only the tree is used, without the
sign, and the output of an encoder does not depend on word order (tested).

The vectors a and r are learned; r is shared by the heads of a layer, as in Shaw et al. Tokens
outside all trees have no depth, and a vector r of their own.
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
from regard.positions.trees import DISCONNECTED, OUTSIDE, Trees


class Depth(AtEmbedding):
    """A vector for each depth, added to the positions of `linear` or combined with them by a
    matrix."""

    def __init__(self, linear: AtEmbedding, dim: int, deepest: int, concat: bool) -> None:
        super().__init__()
        self.linear = linear
        self.table = nn.Parameter(torch.randn(deepest + 1, dim) * 0.5)
        self.join = nn.Linear(2 * dim, dim, bias=False) if concat else None

    def on(self, trees: Trees | None) -> AtEmbedding:
        return _DepthInTrees(self, _require_trees(trees))

    def add_to(self, x: Tensor, positions: int | Tensor, depths: Tensor) -> Tensor:
        """Add the vectors of `depths` (B, T), and the linear positions, to x (B, T, D)."""
        vectors = self.table[depths.clamp(0, len(self.table) - 1)].to(x.dtype)
        vectors = vectors.masked_fill((depths == OUTSIDE)[..., None], 0.0)
        if self.join is None:
            with_linear: Tensor = self.linear(x, positions)
            return with_linear + vectors
        linear = self.linear(torch.zeros_like(x), positions)
        combined: Tensor = self.join(torch.cat([linear, vectors], dim=-1))
        return x + combined


class _DepthInTrees(AtEmbedding):
    """Depths in the trees of one call."""

    def __init__(self, depth: Depth, trees: Trees) -> None:
        super().__init__()
        self.depth, self.trees = depth, trees

    def forward(self, x: Tensor, positions: int | Tensor) -> Tensor:
        return self.depth.add_to(x, positions, self.trees.depths)


class Path(InAttention):
    """A vector for each distance on the tree, in addition to the positions of `linear`."""

    def __init__(self, linear: InAttention, head_dim: int, clip: int, ordered: bool) -> None:
        super().__init__()
        self.linear, self.clip, self.ordered = linear, clip, ordered
        self.weighs_values = linear.weighs_values
        vectors = 2 * clip + 2  # the last is for disconnected tokens
        self.to_keys = nn.Parameter(torch.randn(vectors, head_dim) / math.sqrt(head_dim))

    def on(self, trees: Trees | None) -> InAttention:
        return _PathInTrees(self, _require_trees(trees))

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.linear.rotate(x, positions)

    def score(self, q: Tensor, distances: Tensor) -> Tensor:
        """Return q · r / √K (B, H, T, S) for distances on the tree (B, T, S)."""
        index = distances.clamp(-self.clip, self.clip) + self.clip
        index = index.masked_fill(distances == DISCONNECTED, len(self.to_keys) - 1)
        return scores_by(self.to_keys, q, index[:, None])

    def retain_heads(self, heads: Sequence[int]) -> None:
        self.linear.retain_heads(heads)


class _PathInTrees(InAttention):
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
        linear = self.path.linear.bias(q, queries, keys)
        return by_tree if linear is None else by_tree + linear

    def values(self, weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        return self.path.linear.values(weights, queries, keys)


def _require_trees(trees: Trees | None) -> Trees:
    if trees is None:
        raise DataError(
            "this model uses positions in dependency trees (position: syntax), and the input has "
            "no trees: pass sentences with their trees, as in CoNLL-U."
        )
    return trees


class Spec(PositionSpec):
    """position: {kind: syntax, linear: sinusoidal}"""

    requires: ClassVar[frozenset[str]] = frozenset({"bias", "values", "trees"})
    needs_trees: ClassVar[bool] = True

    absolute: bool = Field(True, description="add a vector for the depth of a word in its tree")
    relative: bool = Field(True, description="add a vector for the tree distance of two words")
    linear: PositionSpec = kind_field(PositionSpec, "the kind of linear position to combine with")
    join: Literal["add", "concat"] = Field(
        "add", description="add depth and linear position, or map their concatenation"
    )
    deepest: int = Field(32, gt=0, le=1 << 16, description="larger depths are clipped to this")
    clip: int = Field(16, gt=0, le=1 << 16, description="larger tree distances are clipped to this")

    @model_validator(mode="after")
    def _uses_the_tree(self) -> Self:
        if not (self.absolute or self.relative):
            raise ValueError("syntax needs absolute or relative positions, or both")
        if self.linear.needs_trees:
            raise ValueError("linear: choose a kind of linear position, not syntax again")
        if self.join == "concat" and not self.absolute:
            raise ValueError("join: concat is for absolute positions, and absolute is false")
        return self

    def at_embedding(self, sizes: Sizes) -> AtEmbedding:
        linear = self.linear.at_embedding(sizes)
        if not self.absolute:
            return linear
        if self.join == "concat" and type(linear) is AtEmbedding:
            raise ConfigError(
                f"model.position.join: concat combines two positions at the embedding, and linear "
                f"'{self.linear.kind()}' has none there: use add, or linear: sinusoidal."
            )
        return Depth(linear, sizes.dim, self.deepest, self.join == "concat")

    def in_attention(self, sizes: Sizes) -> InAttention:
        linear = self.linear.in_attention(sizes)
        if not self.relative:
            return linear
        return Path(linear, sizes.head_dim, self.clip, ordered=self.linear.kind() != "none")
