"""What may be said next, given what has been: each rule changes the scores of some words.

A rule is a function of (scores (R, V), what each of the R rows has said, their numbers) and may
change the scores in place. Scores are logits, or log-probabilities where a beam adds them up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import ConfigError

Said = Sequence[Sequence[int]]


class LogitsProcessor(Protocol):
    def __call__(self, scores: Tensor, said: Said, rows: Sequence[int]) -> Tensor: ...


@dataclass(frozen=True)
class RepetitionPenalty:
    """Words said before become less likely (Keskar et al. 2019, section 4.1).

    A positive score is divided by the penalty, a negative one multiplied by it.
    """

    penalty: float

    def __post_init__(self) -> None:
        if self.penalty < 1:
            raise ConfigError(
                f"a repetition penalty of {self.penalty} would reward repetition: "
                f"give 1 (none) or more."
            )

    def __call__(self, scores: Tensor, said: Said, rows: Sequence[int]) -> Tensor:
        for row, ids in zip(scores, said, strict=True):
            if ids:
                seen = torch.tensor(sorted(set(ids)), device=scores.device)
                old = row[seen]
                row[seen] = torch.where(old > 0, old / self.penalty, old * self.penalty)
        return scores


@dataclass(frozen=True)
class NoRepeatNgram:
    """No `size` words in a row are said twice."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(
                f"n-grams of {self.size} words cannot be forbidden: give a size of at least 1."
            )

    def __call__(self, scores: Tensor, said: Said, rows: Sequence[int]) -> Tensor:
        before = self.size - 1
        for row, ids in zip(scores, said, strict=True):
            ending = list(ids[len(ids) - before :])
            followers = {
                ids[place + before]
                for place in range(len(ids) - before)
                if list(ids[place : place + before]) == ending
            }
            if followers:
                row[sorted(followers)] = -math.inf
        return scores


@dataclass(frozen=True)
class SuppressPhrases:
    """None of these phrases, as ids, is said."""

    phrases: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if not all(self.phrases):
            raise ConfigError("a phrase that is forbidden has no words: name those not to be said.")

    def __call__(self, scores: Tensor, said: Said, rows: Sequence[int]) -> Tensor:
        never = [phrase[0] for phrase in self.phrases if len(phrase) == 1]
        if never:
            scores[:, never] = -math.inf
        for row, ids in zip(scores, said, strict=True):
            for *beginning, last in self.phrases:
                if beginning and list(ids[len(ids) - len(beginning) :]) == beginning:
                    row[last] = -math.inf
        return scores


@dataclass(frozen=True)
class ForcePrefix:
    """What a row must begin with, by the row's number; rows without one are free."""

    words: Mapping[int, Sequence[int]]
    before: Mapping[int, int] | None = None  # how many words were given as said already

    def __call__(self, scores: Tensor, said: Said, rows: Sequence[int]) -> Tensor:
        for place, (ids, number) in enumerate(zip(said, rows, strict=True)):
            wanted = self.words.get(number, ())
            step = len(ids) - (self.before or {}).get(number, 0)
            if step < len(wanted):
                kept = scores[place, wanted[step]].clone()
                scores[place] = -math.inf
                # Where another rule forbids it: what must be said is said.
                scores[place, wanted[step]] = kept if kept.isfinite() else 0.0
        return scores
