"""Where words stand in their dependency trees: how deep, and how far from one another.

A tree is told by the head of each word; a root is its own head. Pieces of a word stand where their
word does, and a piece of no word (a start, an end) stands outside all trees.

Shapes: B batch, T pieces, W words.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

OUTSIDE = -1  # the word of a piece that is of none, and its depth
APART = 2**20  # the distance of pieces that no tree holds both of: more than any tree is deep


def lineages(heads: Tensor) -> Tensor:
    """(B, W, W): is the second word on the way from the first to its root, ends included?"""
    batch, words = heads.shape
    at = torch.arange(words, device=heads.device).expand(batch, words)
    found = torch.zeros(batch, words, words, dtype=torch.bool, device=heads.device)
    for _ in range(words):
        found.scatter_(2, at[..., None], True)
        above = heads.gather(1, at)
        if torch.equal(above, at):
            break
        at = above
    return found


def depths(heads: Tensor) -> Tensor:
    """(B, W): the steps from each word up to its root."""
    return lineages(heads).sum(-1) - 1


def distances(heads: Tensor, ordered: bool) -> Tensor:
    """(B, W, W): where the second word stands, seen from the first.

    On one way to the root it is their difference in depth: −1 is the head, 1 a child. Else it is
    the length of the path between them, and `ordered` gives it a sign: −, if the second word
    comes first. Words of different trees are APART.
    """
    lineage = lineages(heads)
    deep = lineage.sum(-1)
    way = lineage.float()
    shared = (way @ way.mT).long()  # those of both ways: the last of them is where they meet
    path = deep[:, :, None] + deep[:, None, :] - 2 * shared
    below = deep[:, None, :] - deep[:, :, None]
    if ordered:
        number = torch.arange(heads.size(1), device=heads.device)
        branch = path * (number[None, :] - number[:, None]).sign()
    else:
        branch = path
    found = torch.where(path == below.abs(), below, branch)
    return found.masked_fill(shared == 0, APART)


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees of a batch. All layers of a call share them: what follows is worked out once."""

    words: Tensor  # (B, T): the number of each piece's word in its row, in order; or OUTSIDE
    heads: Tensor  # (B, W): the number of each word's head; a root's is its own

    @cached_property
    def depths(self) -> Tensor:
        """(B, T), or OUTSIDE."""
        deep = depths(self.heads).gather(1, self.words.clamp(min=0))
        return deep.masked_fill(self.words == OUTSIDE, OUTSIDE)

    @cached_property
    def distances(self) -> Tensor:
        """(B, T, T), by the tree alone."""
        return self._of_pieces(distances(self.heads, ordered=False))

    @cached_property
    def ordered_distances(self) -> Tensor:
        """(B, T, T), with a sign where words are on different branches."""
        return self._of_pieces(distances(self.heads, ordered=True))

    def _of_pieces(self, of_words: Tensor) -> Tensor:
        row = torch.arange(len(self.words), device=self.words.device)[:, None, None]
        word = self.words.clamp(min=0)
        found = of_words[row, word[:, :, None], word[:, None, :]]
        outside = self.words == OUTSIDE
        return found.masked_fill(outside[:, :, None] | outside[:, None, :], APART)
