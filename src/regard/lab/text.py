"""A text to learn from that needs no file: the English of the bundled corpus, word by word."""

import re
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.bundled import corpus
from regard.lab.experiment import generator

_WORD = re.compile(r"[^\W_]+(?:'\w+)?|[^\w\s]")


class Text(NamedTuple):
    learned: Tensor  # (N,) words, one sentence after another
    held_out: Tensor  # sentences of the same words that are not among those
    words: tuple[str, ...]


@cache
def sentences(count: int) -> Text:
    """So many to learn from, and an eighth of that held out, or a hundred. Words are numbers."""
    drawn = corpus(train=count, dev=max(100, count // 8), pronouns=0)
    parts = [
        [word for pair in pairs for word in _WORD.findall(pair.english.lower())]
        for pairs in (drawn.train, drawn.dev)
    ]
    words = tuple(sorted({word for part in parts for word in part}))
    number = {word: at for at, word in enumerate(words)}
    learned, kept = (torch.tensor([number[word] for word in part]) for part in parts)
    return Text(learned, kept, words)


def windows(text: Tensor, length: int, rows: int, *chance: int) -> Tensor:
    """Rows (B, T) of a text, from places drawn by chance."""
    starts = torch.randint(len(text) - length, (rows, 1), generator=generator(*chance))
    return text[starts + torch.arange(length)]


def pages(text: Tensor, length: int, rows: int) -> Tensor:
    """The first rows (B, T) of a text, one after another."""
    return text[: rows * length].view(rows, length)
