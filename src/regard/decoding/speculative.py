"""Speculative decoding (Leviathan et al. 2023): guess several words cheaply, check them at once.

The model reads all guesses in one pass, for about the price of one word. Of a guess x that was
drawn with probability q(x) it accepts the share min(1, p(x)/q(x)); where it refuses one it draws
from what p has and q has not, max(0, p − q), and the rest is forgotten. What comes out is
distributed as p: nothing is lost but time, where guesses are poor. Greedy decoding is the case in
which p and q are certain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.decoding.sampling import Sampling, draw
from regard.decoding.stepper import Prefills, R

ACCEPT, REPLACE, GUESS = 1, 2, 3  # what chance is drawn for: each must be independent


class DraftTokens(NamedTuple):
    ids: list[int]
    chances: Tensor | None  # (len(ids), V) that each was drawn with; None where there was no chance


class Drafter(Protocol):
    def __call__(self, said: Sequence[int], count: int, sampling: Sampling | None) -> DraftTokens:
        """At most `count` words that may come next."""
        ...


@dataclass(frozen=True)
class PromptLookup:
    """What followed when the last words were said before: in a prompt, often right."""

    longest: int = 3  # words to compare
    prompt: Sequence[int] = ()

    def __call__(
        self, said: Sequence[int], count: int, sampling: Sampling | None = None
    ) -> DraftTokens:
        text = [*self.prompt, *said]
        for size in range(min(self.longest, len(text) - 1), 0, -1):
            ending = text[-size:]
            for start in range(len(text) - size - 1, -1, -1):
                if text[start : start + size] == ending:
                    return DraftTokens(text[start + size : start + size + count], None)
        return DraftTokens([], None)


@dataclass
class DraftModel(Generic[R]):
    """A smaller model guesses. It remembers what it has read."""

    model: Prefills[R]
    state: R  # before the first word
    read: list[int] = field(default_factory=list)
    row: int = 0

    def __post_init__(self) -> None:
        self._now = self.state

    def __call__(self, said: Sequence[int], count: int, sampling: Sampling | None) -> DraftTokens:
        common = 0
        while common < min(len(self.read), len(said) - 1) and self.read[common] == said[common]:
            common += 1
        state = self._now.cut(_length(self.state) + common)
        unread, ids, chances = list(said[common:]), [], []
        for place in range(count):
            logits, state = self.model.extend(torch.tensor([unread]), state)
            last = logits[:, -1]
            if sampling is None:
                ids.append(int(last.argmax()))
            else:
                p = sampling.distribution(last.double())
                chance = sampling.chance(self.row, len(said) + place, GUESS)
                ids.append(int(draw(p, torch.tensor([chance], dtype=torch.float64))))
                chances.append(p[0])
            unread = ids[-1:]
        self._now, self.read = state, [*said, *ids[:-1]]
        return DraftTokens(ids, torch.stack(chances) if chances else None)


@torch.inference_mode()
def speculate(
    model: Prefills[R],
    state: R,
    first: int,
    end: int,
    limit: int,
    guesser: Drafter,
    count: int = 5,
    sampling: Sampling | None = None,
    row: int = 0,
) -> Iterator[int]:
    """What is said after the first id, at most `limit` ids, the end left off."""
    said = [first]
    before = _length(state)
    while len(said) <= limit:
        guess = guesser(said, min(count, limit - len(said)), sampling)
        logits, longer = model.extend(torch.tensor([[said[-1], *guess.ids]]), state)
        accepted = _checked(logits[0], guess, sampling, row, len(said))
        for word in accepted:
            if word == end:
                return
            said.append(word)
            yield word
        state = longer.cut(before + len(said) - 1)  # the last word has not been read yet


def _checked(
    logits: Tensor, guess: DraftTokens, sampling: Sampling | None, row: int, step: int
) -> list[int]:
    """The guesses that the model accepts, and one word of its own after them."""
    if sampling is None:
        own = logits.argmax(-1).tolist()
        right = 0
        while right < len(guess.ids) and guess.ids[right] == own[right]:
            right += 1
        return own[: right + 1]
    p = sampling.distribution(logits.double())
    for place, word in enumerate(guess.ids):
        q = _certain(word, p) if guess.chances is None else guess.chances[place]
        if sampling.chance(row, step + place, ACCEPT) * q[word] >= p[place, word]:
            rest = (p[place] - q).clamp(min=0)[None]
            return [*guess.ids[:place], _drawn(rest, sampling, row, step + place)]
    return [*guess.ids, _drawn(p[-1:], sampling, row, step + len(guess.ids))]


def _certain(word: int, p: Tensor) -> Tensor:
    q = torch.zeros_like(p[0])
    q[word] = 1
    return q


def _drawn(p: Tensor, sampling: Sampling, row: int, step: int) -> int:
    chance = torch.tensor([sampling.chance(row, step, REPLACE)], dtype=torch.float64)
    return int(draw(p, chance))


def _length(state: object) -> int:
    return int(getattr(state, "length", 0))
