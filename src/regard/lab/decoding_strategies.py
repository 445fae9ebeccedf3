"""Going on from an opening: word by word, all at once, with guesses; the calls are counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampling
from regard.decoding.speculative import Drafter, DraftModel, DraftTokens, speculate

MOST = 24  # tokens said after an opening


@dataclass
class Counted:
    """A model that is decoded, and how often it was called."""

    model: Any
    calls: int = 0

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.calls += 1
        said: tuple[Tensor, Any] = self.model.step(ids, state)
        return said

    def extend(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.calls += 1
        said: tuple[Tensor, Any] = self.model.extend(ids, state)
        return said


@dataclass
class CountedGuesses:
    guesser: Drafter
    guesses: int = 0

    def __call__(
        self, generated: Sequence[int], count: int, sampling: Sampling | None
    ) -> DraftTokens:
        guess = self.guesser(generated, count, sampling)
        self.guesses += len(guess.ids)
        return guess


@dataclass(frozen=True)
class Said:
    words: list[int]  # with the end, where it was reached
    calls: int
    guesses: int = 0


@dataclass(frozen=True)
class Telling:
    """Ways to go on from an opening; all say the same. Reading the opening is not counted."""

    large: Any
    small: Any
    end: int

    def one_by_one(self, begun: list[int]) -> Said:
        model = Counted(self.large)
        state, first = self._read(self.large, begun)
        (words,) = greedy(model, state, first, self.end, [MOST])
        return Said(self._ended(words), model.calls)

    def with_guesses(self, begun: list[int], ahead: int) -> Said:
        model = Counted(self.large)
        guesser = CountedGuesses(DraftModel(self.small, self._read(self.small, begun)[0]))
        state, first = self._read(self.large, begun)
        words = list(speculate(model, state, int(first), self.end, MOST, guesser, ahead))
        return Said(self._ended(words), model.calls, guesser.guesses)

    @torch.inference_mode()
    def at_once(self, begun: list[int], wanted: Said) -> int:
        """Calls until all words are right, where each is guessed anew from guesses before it.

        With each call one more word at least has all of its predecessors right, so it ends.
        """
        guess = [begun[-1]] * len(wanted.words)
        for calls in range(1, len(guess) + 1):
            ids = torch.tensor([[*begun, *guess[:-1]]], device=self._device)
            guess = self.large(ids)[0, len(begun) - 1 :].argmax(-1).tolist()
            if guess == wanted.words:
                return calls
        return len(guess)

    def _ended(self, words: list[int]) -> list[int]:
        return words if len(words) == MOST else [*words, self.end]

    @property
    def _device(self) -> torch.device:
        device: torch.device = next(self.large.parameters()).device
        return device

    @torch.inference_mode()
    def _read(self, model: Any, begun: list[int]) -> tuple[Any, Tensor]:
        """The state after all but the last word, and that word."""
        ids = torch.tensor([begun], device=self._device)
        return model.extend(ids[:, :-1], model.start())[1], ids[:, -1]
