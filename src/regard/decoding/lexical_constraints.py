"""Lexically constrained beam search: phrases that the output must contain (Post and Vilar 2018).

The progress of a hypothesis is the number of constraint tokens it has generated: all of the phrases
it contains, and the part of one more phrase that it ends with. A plain beam would keep the most
likely hypotheses, which are those with the least progress. So candidates are ranked within banks,
one for each amount of progress, and the banks take turns. No hypothesis ends before it contains all
phrases; when only the missing tokens still fit, no other token is allowed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from regard.decoding.beam import BeamStep, top_candidates

Phrase = Sequence[int]


@dataclass(frozen=True)
class Progress:
    """Constraint tokens that a hypothesis has generated and those that are missing."""

    done: int  # tokens generated
    missing: int  # tokens still to generate
    next: frozenset[int]  # tokens that would advance it


def progress(ids: Sequence[int], phrases: Sequence[Phrase]) -> Progress:
    """Return the progress of ids through phrases; no token counts for two phrases."""
    free = list(ids)
    missing = []
    for phrase in sorted(phrases, key=len, reverse=True):
        start = _find(free, list(phrase))
        if start is None:
            missing.append(list(phrase))
        else:
            free[start : start + len(phrase)] = [-1] * len(phrase)
    partial = max((_overlap(free, phrase) for phrase in missing), default=0)
    total = sum(map(len, phrases))
    left = sum(map(len, missing)) - partial
    continuing = {
        phrase[partial] for phrase in missing if partial and _overlap(free, phrase) == partial
    }
    next_tokens = frozenset(continuing or {phrase[0] for phrase in missing})
    return Progress(total - left, left, next_tokens)


def _find(ids: list[int], phrase: list[int]) -> int | None:
    size = len(phrase)
    return next((i for i in range(len(ids) - size + 1) if ids[i : i + size] == phrase), None)


def _overlap(ids: list[int], phrase: list[int]) -> int:
    """Length of the longest proper prefix of the phrase that the ids end with."""
    sizes = range(min(len(phrase) - 1, len(ids)), 0, -1)
    return next((size for size in sizes if ids[-size:] == phrase[:size]), 0)


@dataclass(frozen=True)
class RequirePhrases:
    """Select candidates so that each row's output contains its phrases, given by row number."""

    phrases: Mapping[int, Sequence[Phrase]]
    end: int

    def __call__(self, step: BeamStep) -> tuple[Tensor, Tensor]:
        log_p = step.log_p.clone()
        progress_by_row = [
            [progress(ids[1:], self.phrases.get(row, ())) for ids in hypotheses]
            for row, hypotheses in zip(step.rows, step.generated.tolist(), strict=True)
        ]
        for row, (hypotheses, remaining) in enumerate(
            zip(progress_by_row, step.remaining, strict=True)
        ):
            for index, made in enumerate(hypotheses):
                _restrict(log_p[row, index], made, remaining, self.end)
        values, indices = top_candidates(step._replace(log_p=log_p))
        for row, hypotheses in enumerate(progress_by_row):
            if any(made.missing or made.done for made in hypotheses):
                selected = self._by_banks(log_p[row], hypotheses, indices[row].tolist(), step.width)
                padding = (selected or [0])[:1] * (indices.size(1) - len(selected))
                indices[row] = torch.tensor(selected + padding, device=indices.device)
                values[row] = log_p[row].flatten()[indices[row]]
                values[row, len(selected) :] = float("-inf")
        return values, indices

    def _by_banks(
        self, log_p: Tensor, hypotheses: Sequence[Progress], likely: Sequence[int], width: int
    ) -> list[int]:
        """Return the best candidates of each bank in turn, the bank with most progress first."""
        vocabulary = log_p.size(1)
        candidates = set(likely)
        for index, made in enumerate(hypotheses):
            candidates |= {index * vocabulary + token for token in made.next}
            candidates.add(index * vocabulary + int(log_p[index].argmax()))
        scores = {candidate: float(log_p.flatten()[candidate]) for candidate in sorted(candidates)}
        banks: dict[int, list[int]] = {}
        for candidate in sorted(scores, key=lambda candidate: -scores[candidate]):
            made, token = hypotheses[candidate // vocabulary], candidate % vocabulary
            if scores[candidate] > float("-inf"):
                done = made.done + 1 if token in made.next else made.done
                banks.setdefault(done, []).append(candidate)
        turns = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        in_turn = (candidate for turn in turns for candidate in turn if candidate is not None)
        return list(_first(width, in_turn))


def _restrict(log_p: Tensor, made: Progress, remaining: int, end: int) -> None:
    """Exclude next tokens (V,) in place so that all missing tokens can still be generated."""
    if not made.missing:
        return
    log_p[end] = float("-inf")
    if remaining < made.missing:
        allowed = sorted(made.next)
        scores = log_p[allowed].clone()
        log_p.fill_(float("-inf"))
        log_p[allowed] = scores


def _first(count: int, candidates: Iterator[int]) -> Iterator[int]:
    for _, candidate in zip(range(count), candidates, strict=False):
        yield candidate
