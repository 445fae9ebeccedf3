"""Decoding strategies with counted model calls: autoregressive, parallel and speculative."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampling
from regard.decoding.speculative import Drafter, DraftModel, DraftTokens, speculate
from regard.engine.numerics import Ids, Scores
from regard.engine.torch_model import TorchModel

MAX_TOKENS = 24  # generated after a prompt


@dataclass
class Counted:
    """A model that counts its calls."""

    model: Any
    calls: int = 0

    def step(self, ids: Ids, state: Any) -> tuple[Scores, Any]:
        self.calls += 1
        output: tuple[Scores, Any] = self.model.step(ids, state)
        return output

    def extend(self, ids: Ids, state: Any) -> tuple[Scores, Any]:
        self.calls += 1
        output: tuple[Scores, Any] = self.model.extend(ids, state)
        return output

    def prefill(self, ids: Ids, state: Any) -> Any:
        self.calls += 1
        return self.model.prefill(ids, state)


@dataclass
class CountedDrafter:
    """A drafter that counts its draft tokens."""

    drafter: Drafter
    drafted: int = 0

    def __call__(
        self, generated: Sequence[int], count: int, sampling: Sampling | None
    ) -> DraftTokens:
        draft = self.drafter(generated, count, sampling)
        self.drafted += len(draft.ids)
        return draft


@dataclass(frozen=True)
class Decoded:
    """Generated tokens and the number of model calls."""

    tokens: list[int]  # with the end, where it was reached
    calls: int
    drafted: int = 0


@dataclass(frozen=True)
class Strategies:
    """Decoding strategies with the same greedy output; calls for the prompt are not counted."""

    large: Any
    small: Any
    end: int

    def autoregressive(self, prompt: list[int]) -> Decoded:
        model = Counted(TorchModel(self.large))
        state, first = self._prefill(self.large, prompt)
        (tokens,) = greedy(model, state, first, self.end, [MAX_TOKENS])
        return Decoded(self._with_end(tokens), model.calls)

    def speculative(self, prompt: list[int], draft_length: int) -> Decoded:
        model = Counted(TorchModel(self.large))
        drafter = CountedDrafter(
            DraftModel(TorchModel(self.small), self._prefill(self.small, prompt)[0])
        )
        state, first = self._prefill(self.large, prompt)
        tokens = list(
            speculate(model, state, int(first[0]), self.end, MAX_TOKENS, drafter, draft_length)
        )
        return Decoded(self._with_end(tokens), model.calls, drafter.drafted)

    @torch.inference_mode()
    def parallel(self, prompt: list[int], expected: Decoded) -> int:
        """Count the calls until all positions, predicted in parallel, are correct.

        Each call predicts every position from the previous predictions (Jacobi decoding). At least
        one more position is correct after each call, so it ends.
        """
        guess = [prompt[-1]] * len(expected.tokens)
        for calls in range(1, len(guess) + 1):
            ids = torch.tensor([[*prompt, *guess[:-1]]], device=self._device)
            guess = self.large(ids)[0, len(prompt) - 1 :].argmax(-1).tolist()
            if guess == expected.tokens:
                return calls
        return len(guess)

    def _with_end(self, tokens: list[int]) -> list[int]:
        return tokens if len(tokens) == MAX_TOKENS else [*tokens, self.end]

    @property
    def _device(self) -> torch.device:
        device: torch.device = next(self.large.parameters()).device
        return device

    def _prefill(self, module: Any, prompt: list[int]) -> tuple[Any, Ids]:
        """Return the state after all but the last token, and that token."""
        model, ids = TorchModel(module), np.array([prompt])
        return model.extend(ids[:, :-1], model.start())[1], ids[:, -1]
