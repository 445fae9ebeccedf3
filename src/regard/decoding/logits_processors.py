"""Logits processors: functions that change the scores of the next token.

A processor takes (scores (R, V), the ids of each of the R rows so far, the row numbers) and may
change the scores in place. Scores are logits, or log-probabilities where a beam sums them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import ConfigError

Context = Sequence[Sequence[int]]  # ids of each row so far: its prompt and what was generated


class LogitsProcessor(Protocol):
    def __call__(self, scores: Tensor, context: Context, rows: Sequence[int]) -> Tensor:
        """Return the changed scores (R, V)."""
        ...


@dataclass(frozen=True)
class RepetitionPenalty:
    """Make tokens of the context less likely (Keskar et al. 2019, section 4.1).

    A positive score is divided by the penalty, a negative one multiplied by it.
    """

    penalty: float

    def __post_init__(self) -> None:
        if self.penalty < 1:
            raise ConfigError(
                f"a repetition penalty of {self.penalty} would reward repetition: "
                f"give 1 (none) or more."
            )

    def __call__(self, scores: Tensor, context: Context, rows: Sequence[int]) -> Tensor:
        for row, ids in zip(scores, context, strict=True):
            if ids:
                repeated = torch.tensor(sorted(set(ids)), device=scores.device)
                old = row[repeated]
                row[repeated] = torch.where(old > 0, old / self.penalty, old * self.penalty)
        return scores


@dataclass(frozen=True)
class NoRepeatNgram:
    """Allow no n-gram of `size` tokens to occur twice."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(
                f"n-grams of {self.size} tokens cannot be excluded: give a size of at least 1."
            )

    def __call__(self, scores: Tensor, context: Context, rows: Sequence[int]) -> Tensor:
        history = self.size - 1
        for row, ids in zip(scores, context, strict=True):
            ending = list(ids[len(ids) - history :])
            followers = {
                ids[start + history]
                for start in range(len(ids) - history)
                if list(ids[start : start + history]) == ending
            }
            if followers:
                row[sorted(followers)] = -math.inf
        return scores


@dataclass(frozen=True)
class SuppressPhrases:
    """Exclude phrases, each a sequence of ids, from the output."""

    phrases: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if not all(self.phrases):
            raise ConfigError("a forbidden phrase has no tokens: give phrases with text in them.")

    def __call__(self, scores: Tensor, context: Context, rows: Sequence[int]) -> Tensor:
        single = [phrase[0] for phrase in self.phrases if len(phrase) == 1]
        if single:
            scores[:, single] = -math.inf
        for row, ids in zip(scores, context, strict=True):
            for *prefix, last in self.phrases:
                if prefix and list(ids[len(ids) - len(prefix) :]) == prefix:
                    row[last] = -math.inf
        return scores


@dataclass(frozen=True)
class ForcePrefix:
    """Force the first ids of some rows, by row number; other rows are free."""

    prefixes: Mapping[int, Sequence[int]]
    prompt_lengths: Mapping[int, int] | None = None  # ids of the context that were not generated

    def __call__(self, scores: Tensor, context: Context, rows: Sequence[int]) -> Tensor:
        for index, (ids, row) in enumerate(zip(context, rows, strict=True)):
            prefix = self.prefixes.get(row, ())
            step = len(ids) - (self.prompt_lengths or {}).get(row, 0)
            if step < len(prefix):
                score = scores[index, prefix[step]].clone()
                scores[index] = -math.inf
                # A forced token that another processor excludes is generated all the same.
                scores[index, prefix[step]] = score if score.isfinite() else 0.0
        return scores
