"""Past the end of a model's context: a Stepper that forgets the beginning and reads the rest anew.

When the context is full, all but the last three quarters of it go, and what is left is read again
from the first place on: each word is found from at least so many before it. To drop a single word
at each step would cost a whole reading for every word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

KEPT = 3 / 4  # of the context


def kept(context: int, begin: int) -> int:
    """How many tokens stay when it is full: the `begin` ones that every text has, and the last."""
    return max(int(context * KEPT), begin + 1)


@dataclass(frozen=True)
class SlidingState:
    """The state within, and the ids (B, T) that it is of."""

    inner: Any
    said: Tensor

    def reorder(self, rows: Tensor) -> "SlidingState":
        return SlidingState(self.inner.reorder(rows), self.said.index_select(0, rows))


class Sliding:
    """A language model whose texts have no end."""

    def __init__(self, model: Any, context: int, begin: Sequence[int]) -> None:
        self._model, self._context, self._begin = model, context, list(begin)

    def start(self) -> SlidingState:
        return SlidingState(self._model.start(), torch.empty(0, 0, dtype=torch.long))

    def extend(self, ids: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """A prompt, which must fit as it is."""
        assert not state.said.numel()
        logits, inner = self._model.extend(ids, state.inner)
        return logits, SlidingState(inner, ids)

    def step(self, ids: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        inner, said = state.inner, state.said
        if said.size(1) == self._context:
            said = self._last(said)
            _, inner = self._model.extend(said, self._model.start())
        logits, inner = self._model.step(ids, inner)
        before = said if said.numel() else ids.new_empty(len(ids), 0)
        return logits, SlidingState(inner, torch.cat([before, ids[:, None]], dim=1))

    def _last(self, said: Tensor) -> Tensor:
        begin = torch.tensor(self._begin, dtype=said.dtype, device=said.device)
        rest = kept(self._context, len(begin)) - len(begin)
        return torch.cat([begin.expand(len(said), -1), said[:, said.size(1) - rest :]], dim=1)
