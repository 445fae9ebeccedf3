"""Logits processors: functions that change the scores of the next token.

A processor takes (scores (R, V), the ids of each of the R rows so far, the row numbers) and may
change the scores in place. Scores are logits, or log-probabilities where a beam sums them. A
processor excludes a token by the score −∞; where all of them together exclude every token, the row
ends.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.decoding.ranges import check_count, check_number
from regard.engine.numerics import Scores
from regard.errors import ConfigError, RunError

Context = Sequence[Sequence[int]]  # ids of each row so far: its prompt and what was generated


class LogitsProcessor(Protocol):
    def __call__(self, scores: Scores, context: Context, rows: Sequence[int]) -> Scores:
        """Return the changed scores (R, V)."""
        ...


def process(
    processors: Sequence[LogitsProcessor],
    scores: Scores,
    context: Context,
    rows: Sequence[int],
    end: int,
    must_end: NDArray[np.bool_] | None = None,
) -> Scores:
    """Return the scores (R, V) changed by all processors, in order.

    The end token is allowed in rows that have no other token left, and in those that must end (R,),
    whatever the processors say.
    """
    end_scores = scores[:, end].copy()
    for processor in processors:
        scores = processor(scores, context, rows)
    only_end = scores.max(-1) == -math.inf
    if must_end is not None:
        only_end |= must_end & (scores[:, end] == -math.inf)
    if only_end.any():
        scores[only_end, end] = np.nan_to_num(end_scores[only_end], neginf=0.0)
    return scores


def require_finite(numbers: Scores) -> None:
    """Refuse to decode with logits that are not finite, which would choose tokens arbitrarily."""
    if not np.isfinite(numbers).all():
        raise RunError(
            "the model computes logits that are not finite numbers: its weights are damaged, or "
            "its training diverged; load another checkpoint or train again."
        )


@dataclass(frozen=True)
class RepetitionPenalty:
    """Make tokens of the context less likely (Keskar et al. 2019, section 4.1).

    A positive score is divided by the penalty, a negative one multiplied by it.
    """

    penalty: float

    def __post_init__(self) -> None:
        check_number("repetition_penalty", self.penalty, 1, 1000)

    def __call__(self, scores: Scores, context: Context, rows: Sequence[int]) -> Scores:
        for row, ids in zip(scores, context, strict=True):
            if ids:
                repeated = np.array(sorted(set(ids)))
                old = row[repeated]
                row[repeated] = np.where(old > 0, old / self.penalty, old * self.penalty)
        return scores


@dataclass(frozen=True)
class NoRepeatNgram:
    """Allow no n-gram of `size` tokens to occur twice; the end token is always allowed."""

    size: int
    end: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_count("no_repeat_ngram", self.size, 1)

    def __call__(self, scores: Scores, context: Context, rows: Sequence[int]) -> Scores:
        history = self.size - 1
        for row, ids in zip(scores, context, strict=True):
            ending = list(ids[len(ids) - history :])
            followers = {
                ids[start + history]
                for start in range(len(ids) - history)
                if list(ids[start : start + history]) == ending
            }
            followers.discard(self.end)
            if followers:
                row[sorted(followers)] = -math.inf
        return scores


@dataclass(frozen=True)
class SuppressPhrases:
    """Exclude phrases, each a sequence of ids, from the output."""

    phrases: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if isinstance(self.phrases, str) or not all(map(_is_ids, self.phrases)):
            raise ConfigError(
                "suppress_phrases must be sequences of token ids: encode texts with the model's "
                "tokenizer."
            )
        if not all(map(len, self.phrases)):
            raise ConfigError("a suppressed phrase has no tokens: give phrases with text in them.")

    def __call__(self, scores: Scores, context: Context, rows: Sequence[int]) -> Scores:
        single = [phrase[0] for phrase in self.phrases if len(phrase) == 1]
        if max(max(phrase) for phrase in self.phrases) >= scores.shape[1]:
            raise ConfigError(
                f"suppress_phrases has an id that is not in the vocabulary of {scores.shape[1]:,} "
                f"tokens: encode texts with this model's tokenizer."
            )
        if single:
            scores[:, single] = -math.inf
        for row, ids in zip(scores, context, strict=True):
            for *prefix, last in self.phrases:
                if prefix and list(ids[len(ids) - len(prefix) :]) == prefix:
                    row[last] = -math.inf
        return scores


def _is_ids(phrase: Any) -> bool:
    if isinstance(phrase, str) or not isinstance(phrase, Sequence):
        return False
    return all(
        isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in phrase
    )


@dataclass(frozen=True)
class ForcePrefix:
    """Force the first ids of some rows, by row number; other rows are free."""

    prefixes: Mapping[int, Sequence[int]]
    prompt_lengths: Mapping[int, int] | None = None  # ids of the context that were not generated

    def __call__(self, scores: Scores, context: Context, rows: Sequence[int]) -> Scores:
        for index, (ids, row) in enumerate(zip(context, rows, strict=True)):
            prefix = self.prefixes.get(row, ())
            step = len(ids) - (self.prompt_lengths or {}).get(row, 0)
            if step < len(prefix):
                score = scores[index, prefix[step]]
                scores[index] = -math.inf
                # A forced token that another processor excludes is generated all the same.
                scores[index, prefix[step]] = score if math.isfinite(score) else 0.0
        return scores
