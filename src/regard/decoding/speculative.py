"""Speculative decoding (Leviathan et al. 2023): draft several tokens cheaply, verify them at once.

The model verifies all draft tokens in one pass, for about the price of one token. A draft token x
that was drawn with probability q(x) is accepted with probability min(1, p(x)/q(x)). After the first
rejection a token is drawn from the residual max(0, p − q), normalized, and the rest of the draft is
dropped. The output is distributed as p: a poor draft costs only time. Greedy decoding is the case
in which p and q are one-hot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol

import numpy as np

from regard.decoding.logits_processors import require_finite
from regard.decoding.sampling import Sampling, draw
from regard.decoding.stepper import Prefills, R
from regard.engine.numerics import Scores

ACCEPT, REPLACE, DRAFT = 1, 2, 3  # purposes of random numbers, which must be independent


class DraftTokens(NamedTuple):
    """Tokens to verify."""

    ids: list[int]
    probs: Scores | None  # (len(ids), V) that each was drawn from; None: not drawn at random


class Drafter(Protocol):
    def __call__(
        self, generated: Sequence[int], count: int, sampling: Sampling | None
    ) -> DraftTokens:
        """Return at most `count` tokens that may come next."""
        ...


@dataclass(frozen=True)
class PromptLookup:
    """Draft what followed the last tokens where they occurred before: in a prompt, often right."""

    longest: int = 3  # tokens to compare
    prompt: Sequence[int] = ()

    def __call__(
        self, generated: Sequence[int], count: int, sampling: Sampling | None = None
    ) -> DraftTokens:
        text = [*self.prompt, *generated]
        for size in range(min(self.longest, len(text) - 1), 0, -1):
            ending = text[-size:]
            for start in range(len(text) - size - 1, -1, -1):
                if text[start : start + size] == ending:
                    return DraftTokens(text[start + size : start + size + count], None)
        return DraftTokens([], None)


@dataclass
class DraftModel(Generic[R]):
    """Draft with a smaller model; its state is kept between calls."""

    model: Prefills[R]
    state: R  # before the first token
    encoded: list[int] = field(default_factory=list)
    row: int = 0

    def __post_init__(self) -> None:
        self._current = self.state

    def __call__(
        self, generated: Sequence[int], count: int, sampling: Sampling | None
    ) -> DraftTokens:
        common, most = 0, min(len(self.encoded), len(generated) - 1)
        while common < most and self.encoded[common] == generated[common]:
            common += 1
        state = self._current.truncate(_length(self.state) + common)
        new, ids, probs = list(generated[common:]), [], []
        for offset in range(count):
            logits, state = self.model.extend(np.array([new]), state)
            last = logits[:, -1]
            if sampling is None:
                ids.append(int(last.argmax()))
            else:
                p = sampling.distribution(last)
                uniform = sampling.uniform(self.row, len(generated) + offset, DRAFT)
                ids.append(int(draw(p, np.array([uniform]))[0]))
                probs.append(p[0])
            new = ids[-1:]
        self._current, self.encoded = state, [*generated, *ids[:-1]]
        return DraftTokens(ids, np.stack(probs) if probs else None)


def speculate(
    model: Prefills[R],
    state: R,
    first: int,
    end: int,
    limit: int,
    drafter: Drafter,
    count: int = 5,
    sampling: Sampling | None = None,
    row: int = 0,
) -> Iterator[int]:
    """Yield the ids generated after the first id, at most `limit`, without the end token.

    Args:
        model: The model whose output is generated.
        state: Its state before `first`.
        first: The last id of the prompt.
        end: Id of the end token.
        limit: Maximum number of new ids.
        drafter: Proposes tokens; it affects the speed, not the output's distribution.
        count: Maximum number of draft tokens at each step (default: 5).
        sampling: Sample instead of decoding greedily.
        row: Row number that random numbers depend on (default: 0).
    """
    generated = [first]
    prompt = _length(state)
    while len(generated) <= limit:
        draft = drafter(generated, min(count, limit - len(generated)), sampling)
        logits, longer = model.extend(np.array([[generated[-1], *draft.ids]]), state)
        verified = _verify(logits[0], draft, sampling, row, len(generated))
        for token in verified:
            if token == end:
                return
            generated.append(token)
            yield token
        state = longer.truncate(
            prompt + len(generated) - 1
        )  # the last token is not in the state yet


def _verify(
    logits: Scores, draft: DraftTokens, sampling: Sampling | None, row: int, step: int
) -> list[int]:
    """Return the accepted draft tokens, and one token of the model's own after them."""
    if sampling is None:
        require_finite(logits.max(-1))
        own: list[int] = logits.argmax(-1).tolist()
        accepted = 0
        while accepted < len(draft.ids) and draft.ids[accepted] == own[accepted]:
            accepted += 1
        return own[: accepted + 1]
    p = sampling.distribution(logits)
    for offset, token in enumerate(draft.ids):
        q = _one_hot(token, p) if draft.probs is None else draft.probs[offset]
        if sampling.uniform(row, step + offset, ACCEPT) * q[token] >= p[offset, token]:
            residual = np.maximum(p[offset] - q, 0)[None]
            return [*draft.ids[:offset], _draw_one(residual, sampling, row, step + offset)]
    return [*draft.ids, _draw_one(p[-1:], sampling, row, step + len(draft.ids))]


def _one_hot(token: int, p: Scores) -> Scores:
    q: Scores = np.zeros_like(p[0])
    q[token] = 1
    return q


def _draw_one(probs: Scores, sampling: Sampling, row: int, step: int) -> int:
    return int(draw(probs, np.array([sampling.uniform(row, step, REPLACE)]))[0])


def _length(state: object) -> int:
    return int(getattr(state, "length", 0))
