"""Depths and distances of words in their dependency trees.

A tree is given by the head of each word; a root is its own head. The tokens of a word have the
position of their word, and a token of no word (a start, an end) is outside all trees.

Shapes: B batch, T tokens, W words.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

OUTSIDE = -1  # word and depth of a token that belongs to no word
DISCONNECTED = 2**20  # distance of tokens that are not in one tree: larger than any path


def lineages(heads: Tensor) -> Tensor:
    """Return a mask (B, W, W), True = the second word is the first or one of its ancestors."""
    batch, words = heads.shape
    current = torch.arange(words, device=heads.device).expand(batch, words)
    is_ancestor = torch.zeros(batch, words, words, dtype=torch.bool, device=heads.device)
    for _ in range(words):
        is_ancestor.scatter_(2, current[..., None], True)
        above = heads.gather(1, current)
        if torch.equal(above, current):
            break
        current = above
    return is_ancestor


def depths(heads: Tensor) -> Tensor:
    """Return the number of edges from each word to its root: (B, W)."""
    return lineages(heads).sum(-1) - 1


def distances(heads: Tensor, ordered: bool) -> Tensor:
    """Return the signed distance from the first word to the second: (B, W, W).

    If one is an ancestor of the other, it is their difference in depth: −1 is the head, 1 a child.
    Otherwise it is the length of the path between them, and `ordered` gives it a sign: negative if
    the second word comes first. Words of different trees are DISCONNECTED.
    """
    lineage = lineages(heads)
    depth = lineage.sum(-1)
    ancestors = lineage.float()
    shared = (ancestors @ ancestors.mT).long()  # number of common ancestors
    path = depth[:, :, None] + depth[:, None, :] - 2 * shared
    below = depth[:, None, :] - depth[:, :, None]
    if ordered:
        number = torch.arange(heads.size(1), device=heads.device)
        branch = path * (number[None, :] - number[:, None]).sign()
    else:
        branch = path
    signed = torch.where(path == below.abs(), below, branch)
    return signed.masked_fill(shared == 0, DISCONNECTED)


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees of a batch. All layers of a call share them, so each property is computed once."""

    words: Tensor  # (B, T): index of each token's word in its row, in order; or OUTSIDE
    heads: Tensor  # (B, W): index of each word's head; a root's is its own

    @cached_property
    def depths(self) -> Tensor:
        """Depth of each token (B, T), or OUTSIDE."""
        by_token = depths(self.heads).gather(1, self.words.clamp(min=0))
        return by_token.masked_fill(self.words == OUTSIDE, OUTSIDE)

    @cached_property
    def distances(self) -> Tensor:
        """Distances of tokens (B, T, T), by the tree alone."""
        return self._by_token(distances(self.heads, ordered=False))

    @cached_property
    def ordered_distances(self) -> Tensor:
        """Distances of tokens (B, T, T), with a sign for words on different branches."""
        return self._by_token(distances(self.heads, ordered=True))

    def _by_token(self, of_words: Tensor) -> Tensor:
        row = torch.arange(len(self.words), device=self.words.device)[:, None, None]
        word = self.words.clamp(min=0)
        by_token = of_words[row, word[:, :, None], word[:, None, :]]
        outside = self.words == OUTSIDE
        return by_token.masked_fill(outside[:, :, None] | outside[:, None, :], DISCONNECTED)
