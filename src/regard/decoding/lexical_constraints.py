"""Lexically constrained beam search: phrases that the output must contain (Post and Vilar 2018).

The progress of a hypothesis is the number of constraint tokens it has generated: all of the phrases
it contains, and the part of one more phrase that it ends with. A plain beam would keep the most
likely hypotheses, which are those with the least progress. So candidates are ranked within banks,
one for each amount of progress, and the banks take turns. No hypothesis ends before it contains all
phrases; a token after which the missing ones would no longer fit is not allowed. Where logits
processors exclude every token that is left, the next token of a phrase is generated all the same.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from regard.decoding.beam import BeamStep, top_candidates
from regard.engine.numerics import Ids, Scores
from regard.errors import DataError

Phrase = Sequence[int]
Occurrence = tuple[int, tuple[int, ...]]  # index of the first token, and the phrase

NO_PHRASE_TOKEN = -1  # stands for all tokens that are in no phrase


@dataclass(frozen=True)
class Progress:
    """Constraint tokens that a hypothesis has generated and those that are missing."""

    done: int  # tokens generated
    missing: int  # tokens still to generate
    next: frozenset[int]  # tokens that would advance it


def progress(ids: Sequence[int], phrases: Sequence[Phrase]) -> Progress:
    """Return the progress of ids through phrases; no token counts for two phrases.

    Each of the next tokens leaves at least one fewer missing: a phrase that the ids end with in
    part is continued only where that costs no other phrase its tokens.
    """
    needed = Counter(map(tuple, phrases))
    absent = _absent(ids, needed)
    options = [(_tokens(absent), {phrase[0] for phrase in absent})]
    for phrase in needed:
        for size in range(1, min(len(phrase) - 1, len(ids)) + 1):
            if tuple(ids[-size:]) == phrase[:size]:
                others = _absent(ids[:-size], needed - Counter([phrase]))
                options.append((_tokens(others) + len(phrase) - size, {phrase[size]}))
    missing = min(tokens for tokens, _ in options)
    next_tokens = frozenset[int]().union(*(ids for tokens, ids in options if tokens == missing))
    return Progress(_tokens(needed) - missing, missing, next_tokens)


def require_fit(
    limit: int, prefix: Sequence[int], phrases: Sequence[Phrase], name: str, advice: str
) -> None:
    """Refuse a prefix and phrases that are longer together than an output may be."""
    required = len(prefix) + progress(prefix, phrases).missing
    if required > limit:
        raise DataError(
            f"{name}: the text that the output must contain has {required:,} tokens, and the "
            f"output may have at most {limit:,}: {advice}."
        )


def _tokens(phrases: Counter[tuple[int, ...]]) -> int:
    return sum(len(phrase) * count for phrase, count in phrases.items())


def _absent(ids: Sequence[int], needed: Counter[tuple[int, ...]]) -> Counter[tuple[int, ...]]:
    """Return the phrases that are absent when the others are found apart from each other.

    Of all ways to assign the tokens of ids to phrases, the one that leaves the fewest absent tokens
    is taken. An occurrence that overlaps no other is always used; the others are tried both ways.
    """
    needed = Counter({phrase: count for phrase, count in needed.items() if phrase})
    occurrences = [
        (start, phrase)
        for start in range(len(ids))
        for phrase in needed
        if ids[start] == phrase[0] and tuple(ids[start : start + len(phrase)]) == phrase
    ]
    while apart := _apart(occurrences):
        needed -= Counter([apart[1]])
        occurrences = [one for one in occurrences if one != apart and one[1] in needed]
    phrases = list(needed)
    # Phrases still absent, and the index at which the next occurrence may begin
    states = {(tuple(needed.values()), 0)}
    for start, phrase in occurrences:
        number = phrases.index(phrase)
        states = {(absent, max(free, start)) for absent, free in states}
        states |= {
            ((*absent[:number], absent[number] - 1, *absent[number + 1 :]), start + len(phrase))
            for absent, free in states
            if free == start and absent[number]
        }
    counts = [Counter(dict(zip(phrases, absent, strict=True))) for absent, _ in states]
    return +min(counts, key=_tokens)


def _apart(occurrences: Sequence[Occurrence]) -> Occurrence | None:
    """Return the first occurrence that overlaps no other, if there is one."""
    end = 0  # of all occurrences so far, which are sorted by start
    for number, (start, phrase) in enumerate(occurrences):
        following = occurrences[number + 1 : number + 2]
        if start >= end and not (following and following[0][0] < start + len(phrase)):
            return start, phrase
        end = max(end, start + len(phrase))
    return None


@dataclass(frozen=True)
class RequirePhrases:
    """Select candidates so that each row's output contains its phrases, given by row number."""

    phrases: Mapping[int, Sequence[Phrase]]
    end: int
    prefix_lengths: Mapping[int, int] = field(default_factory=dict)  # forced tokens, by row number
    # Tokens that must not follow a complete phrase, by row number: those that continue a word.
    continuations: Mapping[int, Ids] = field(default_factory=dict)

    def __call__(self, step: BeamStep) -> tuple[Scores, Ids]:
        log_p = step.log_p.copy()
        progress_by_row = [
            [progress(ids[1:], self.phrases.get(row, ())) for ids in hypotheses]
            for row, hypotheses in zip(step.rows, step.generated.tolist(), strict=True)
        ]
        for index, hypotheses in enumerate(progress_by_row):
            if step.generated.shape[2] > self.prefix_lengths.get(step.rows[index], 0):
                self._restrict_row(log_p[index], step, index, hypotheses)
        values, indices = top_candidates(step._replace(log_p=log_p))
        for row, hypotheses in enumerate(progress_by_row):
            if any(made.missing or made.done for made in hypotheses):
                selected = self._by_banks(log_p[row], hypotheses, indices[row].tolist(), step.width)
                padding = (selected or [0])[:1] * (indices.shape[1] - len(selected))
                indices[row] = selected + padding
                values[row] = log_p[row].reshape(-1)[indices[row]]
                values[row, len(selected) :] = -math.inf
        return values, indices

    def _restrict_row(
        self, log_p: Scores, step: BeamStep, index: int, hypotheses: Sequence[Progress]
    ) -> None:
        """Exclude candidates (W, V) in place after which the missing tokens would not fit."""
        phrases = self.phrases.get(step.rows[index], ())
        remaining = step.remaining[index]
        if remaining < 0:
            return  # at its limit a hypothesis may only end
        for scores, made, ids in zip(
            log_p, hypotheses, step.generated[index].tolist(), strict=True
        ):
            self._end_word(scores, made, ids, step.rows[index])
            if made.missing:
                scores[self.end] = -math.inf
                if remaining < sum(map(len, phrases)):
                    _restrict(scores, ids[1:], phrases, remaining)
        if not np.isfinite(log_p).any():
            for number, made in enumerate(hypotheses):
                tokens = sorted(made.next)
                log_p[number, tokens] = step.unprocessed[index, number, tokens]

    def _end_word(self, log_p: Scores, made: Progress, ids: list[int], row: int) -> None:
        """Exclude tokens (V,) in place that continue the last word of a complete phrase."""
        if row in self.continuations and any(
            tuple(ids[-len(phrase) :]) == tuple(phrase) for phrase in self.phrases[row]
        ):
            advancing = log_p[list(made.next)]
            log_p[self.continuations[row]] = -math.inf
            log_p[list(made.next)] = advancing

    def _by_banks(
        self, log_p: Scores, hypotheses: Sequence[Progress], likely: Sequence[int], width: int
    ) -> list[int]:
        """Return the best candidates of each bank in turn, the bank with most progress first."""
        vocabulary, flat = log_p.shape[1], log_p.reshape(-1)
        candidates = set(likely)
        for index, made in enumerate(hypotheses):
            candidates |= {index * vocabulary + token for token in made.next}
            candidates.add(index * vocabulary + int(log_p[index].argmax()))
        scores = {candidate: float(flat[candidate]) for candidate in sorted(candidates)}
        banks: dict[int, list[int]] = {}
        for candidate in sorted(scores, key=lambda candidate: -scores[candidate]):
            made, token = hypotheses[candidate // vocabulary], candidate % vocabulary
            if scores[candidate] > -math.inf:
                done = made.done + 1 if token in made.next else made.done
                banks.setdefault(done, []).append(candidate)
        turns = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        in_turn = (candidate for turn in turns for candidate in turn if candidate is not None)
        return list(_first(width, in_turn))


def _restrict(log_p: Scores, ids: list[int], phrases: Sequence[Phrase], remaining: int) -> None:
    """Exclude next tokens (V,) in place after which more would be missing than `remaining`."""
    tokens = sorted({token for phrase in phrases for token in phrase})
    fits = [progress([*ids, token], phrases).missing <= remaining for token in tokens]
    allowed = [token for token, fit in zip(tokens, fits, strict=True) if fit]
    scores = log_p[allowed]  # a copy
    if progress([*ids, NO_PHRASE_TOKEN], phrases).missing <= remaining:
        log_p[tokens] = -math.inf
    else:
        log_p[:] = -math.inf
    log_p[allowed] = scores


def _first(count: int, candidates: Iterator[int]) -> Iterator[int]:
    for _, candidate in zip(range(count), candidates, strict=False):
        yield candidate
