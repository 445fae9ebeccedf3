"""A sentence's dependency tree beside its text: which characters a word is, and on what it hangs.

A tokeniser knows nothing of grammar. Its pieces inherit the place of the word they are part of; of
several words (don't, du) it is the one highest in the tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Tree(NamedTuple):
    """The words of a text, in order."""

    spans: tuple[tuple[int, int], ...]  # characters: first, end; words of one token share theirs
    heads: tuple[int, ...]  # the number of each word's head, from 0; the root's is its own


@dataclass(frozen=True)
class Parsed:
    """A text with its tree, as a model that reads trees is given it."""

    text: str
    tree: Tree


def depths(heads: Sequence[int]) -> list[int]:
    """The steps from each word up to its root; a word that never gets there has −1."""
    found = []
    for word in range(len(heads)):
        at, steps = word, 0
        while heads[at] != at and steps <= len(heads):
            at, steps = heads[at], steps + 1
        found.append(steps if steps <= len(heads) else -1)
    return found


def words_of(pieces: Sequence[tuple[int, int]], tree: Tree) -> list[int]:
    """The number of the word that each piece, by its characters, is part of.

    A piece that is only space goes with the word after it, or with the last.
    """
    deep, found, first = depths(tree.heads), [], 0
    for begin, end in pieces:
        while first < len(tree.spans) - 1 and tree.spans[first][1] <= begin:
            first += 1
        touched = [first]
        for word in range(first + 1, len(tree.spans)):
            if tree.spans[word][0] >= max(end, begin + 1):
                break
            touched.append(word)
        found.append(min(touched, key=lambda word: deep[word]))
    return found
