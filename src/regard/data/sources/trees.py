"""Dependency trees: the characters of each word, and the head of each word.

A tokenizer knows no syntax. A token takes the position of the word it is part of; of several words
(don't, du), that of the one highest in the tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Tree(NamedTuple):
    """Words of a text, in order."""

    spans: tuple[tuple[int, int], ...]  # characters (begin, end); words of one token share theirs
    heads: tuple[int, ...]  # number of each word's head, from 0; a root is its own head


@dataclass(frozen=True)
class ParsedText:
    """A text with its dependency tree, the input of a model with syntax-aware positions."""

    text: str
    tree: Tree


def depths(heads: Sequence[int]) -> list[int]:
    """Return the number of steps from each word to its root; −1 for a word in a cycle."""
    word_depths: list[int | None] = [None] * len(heads)
    for word in range(len(heads)):
        path, at = [], word
        while word_depths[at] is None and heads[at] != at:
            word_depths[at] = -1  # until its root is reached
            path.append(at)
            at = heads[at]
        depth = word_depths[at] if heads[at] != at else 0
        word_depths[at] = depth
        for above in reversed(path):
            if depth is not None and depth >= 0:
                depth = word_depths[above] = depth + 1
    return [-1 if depth is None else depth for depth in word_depths]


def token_words(tokens: Sequence[tuple[int, int]], tree: Tree) -> list[int]:
    """Return the number of the word that each token, given by its characters, is part of.

    A token that is only space is part of the word after it, or of the last.
    """
    word_depths, numbers, first = depths(tree.heads), [], 0
    for begin, end in tokens:
        while first < len(tree.spans) - 1 and tree.spans[first][1] <= begin:
            first += 1
        overlapping = [first]
        for word in range(first + 1, len(tree.spans)):
            if tree.spans[word][0] >= max(end, begin + 1):
                break
            overlapping.append(word)
        numbers.append(min(overlapping, key=lambda word: word_depths[word]))
    return numbers
