"""Phrases that must be said, wherever the model likes best (after Post and Vilar 2018).

A beginning has met so many words of its row's phrases: all of those it contains, and as much of one
more as it ends with. Left to itself a beam would keep the likeliest, which are those that have met
least. So beginnings are ranked within banks, one for each number of words met, and the banks take
turns. Nothing ends before it has said everything; when there is only room for what is left to say,
nothing else may be said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from regard.decoding.beam import BeamStep, likeliest

Phrase = Sequence[int]


@dataclass(frozen=True)
class Met:
    """How far a beginning has come with the phrases it must say."""

    words: int  # said of them
    left: int  # to be said
    next: frozenset[int]  # words that would bring it further


def met(ids: Sequence[int], phrases: Sequence[Phrase]) -> Met:
    """What of the phrases has been said in ids; each phrase takes words of its own."""
    free = list(ids)
    missing = []
    for phrase in sorted(phrases, key=len, reverse=True):
        place = _find(free, list(phrase))
        if place is None:
            missing.append(list(phrase))
        else:
            free[place : place + len(phrase)] = [-1] * len(phrase)
    begun = max((_overlap(free, phrase) for phrase in missing), default=0)
    total = sum(map(len, phrases))
    left = sum(map(len, missing)) - begun
    going_on = {phrase[begun] for phrase in missing if begun and _overlap(free, phrase) == begun}
    return Met(total - left, left, frozenset(going_on or {phrase[0] for phrase in missing}))


def _find(ids: list[int], phrase: list[int]) -> int | None:
    size = len(phrase)
    return next((i for i in range(len(ids) - size + 1) if ids[i : i + size] == phrase), None)


def _overlap(ids: list[int], phrase: list[int]) -> int:
    """How much of the phrase's beginning the ids end with, short of the whole."""
    sizes = range(min(len(phrase) - 1, len(ids)), 0, -1)
    return next((size for size in sizes if ids[-size:] == phrase[:size]), 0)


@dataclass(frozen=True)
class Forced:
    """Phrases by the number of the row that must say them."""

    phrases: Mapping[int, Sequence[Phrase]]
    end: int

    def __call__(self, at: BeamStep) -> tuple[Tensor, Tensor]:
        after = at.after.clone()
        progress = [
            [met(ids[1:], self.phrases.get(row, ())) for ids in beginnings]
            for row, beginnings in zip(at.rows, at.said.tolist(), strict=True)
        ]
        for row, (beginnings, room) in enumerate(zip(progress, at.left, strict=True)):
            for place, each in enumerate(beginnings):
                _hold_back(after[row, place], each, room, self.end)
        values, places = likeliest(at._replace(after=after))
        for row, beginnings in enumerate(progress):
            if any(each.left or each.words for each in beginnings):
                chosen = self._by_banks(after[row], beginnings, places[row].tolist(), at.width)
                filled = chosen + (chosen or [0])[:1] * (places.size(1) - len(chosen))
                places[row] = torch.tensor(filled, device=places.device)
                values[row] = after[row].flatten()[places[row]]
                values[row, len(chosen) :] = float("-inf")
        return values, places

    def _by_banks(
        self, after: Tensor, beginnings: Sequence[Met], likely: Sequence[int], width: int
    ) -> list[int]:
        """The best of each bank in turn, the fullest bank first."""
        vocabulary = after.size(1)
        candidates = set(likely)
        for place, each in enumerate(beginnings):
            candidates |= {place * vocabulary + word for word in each.next}
            candidates.add(place * vocabulary + int(after[place].argmax()))
        log_p = {place: float(after.flatten()[place]) for place in sorted(candidates)}
        banks: dict[int, list[int]] = {}
        for place in sorted(log_p, key=lambda place: -log_p[place]):
            each, word = beginnings[place // vocabulary], place % vocabulary
            if log_p[place] > float("-inf"):
                further = each.words + 1 if word in each.next else each.words
                banks.setdefault(further, []).append(place)
        turns = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        return list(_first(width, (place for turn in turns for place in turn if place is not None)))


def _hold_back(words: Tensor, each: Met, room: int, end: int) -> None:
    """Change the log p (V,) of what a beginning may say next: it must still say everything."""
    if not each.left:
        return
    words[end] = float("-inf")
    if room < each.left:
        kept = sorted(each.next)
        scores = words[kept].clone()
        words.fill_(float("-inf"))
        words[kept] = scores


def _first(count: int, places: Iterator[int]) -> Iterator[int]:
    for _, place in zip(range(count), places, strict=False):
        yield place
