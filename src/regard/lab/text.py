"""A training text without a file: the English side of the bundled corpus, as word ids."""

import re
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.bundled import corpus
from regard.lab.experiment import generator

_WORD = re.compile(r"[^\W_]+(?:'\w+)?|[^\w\s]")


class Text(NamedTuple):
    """A training and a held-out text, and the vocabulary."""

    train: Tensor  # (N,) word ids, one sentence after another
    held_out: Tensor  # other sentences of the same vocabulary
    vocabulary: tuple[str, ...]


@cache
def sentences(count: int) -> Text:
    """Return so many training sentences, and an eighth as many (at least 100) held out."""
    splits = corpus(train=count, dev=max(100, count // 8), pronouns=0)
    parts = [
        [word for pair in pairs for word in _WORD.findall(pair.english.lower())]
        for pairs in (splits.train, splits.dev)
    ]
    vocabulary = tuple(sorted({word for part in parts for word in part}))
    ids = {word: index for index, word in enumerate(vocabulary)}
    train, held_out = (torch.tensor([ids[word] for word in part]) for part in parts)
    return Text(train, held_out, vocabulary)


def windows(text: Tensor, length: int, rows: int, *seed: int) -> Tensor:
    """Return rows (B, T) of a text that start at random positions."""
    starts = torch.randint(len(text) - length, (rows, 1), generator=generator(*seed))
    return text[starts + torch.arange(length)]


def pages(text: Tensor, length: int, rows: int) -> Tensor:
    """Return the first rows (B, T) of a text, one after another."""
    return text[: rows * length].view(rows, length)
