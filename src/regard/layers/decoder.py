"""The decoder block: look back, look across where there is a source, then think each word over.

The keys and values of earlier words are an argument and come back longer, so that the same lines
serve training (all words at once, no past) and decoding (one word, all the past).
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from regard.attention.kv_cache import KeyValues, Memory
from regard.attention.masks import View
from regard.attention.multi_head import MultiHead
from regard.layers.base import ResidualModule
from regard.layers.residual import Residual

M = TypeVar("M", bound=Memory)


class Sight(NamedTuple, Generic[M]):
    """What a block can look at: a memory, and who may look at what in it."""

    memory: M | None
    view: View


class DecoderBlock(ResidualModule):
    def __init__(
        self,
        attention: MultiHead,
        cross: MultiHead | None,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross = cross
        self.feed_forward = feed_forward
        self.around_attention = residual()
        self.around_cross = residual() if cross is not None else None
        self.around_feed_forward = residual()

    def forward(
        self, x: Tensor, past: Sight[Memory], source: Sight[KeyValues] | None
    ) -> tuple[Tensor, Memory]:
        """x (B, T, D) → (B, T, D), and what is kept of past and new words together."""
        x, memory = self._look_back(x, past)
        if source is not None:
            x = self._look_across(x, source)
        thought = self.feed_forward(self.around_feed_forward.enter(x), past.view.counted)
        return self.around_feed_forward.leave(x, thought), memory

    def _look_back(self, x: Tensor, past: Sight[Memory]) -> tuple[Tensor, Memory]:
        q, new = self.attention.project(self.around_attention.enter(x), past.view.queries)
        found, memory = self.attention.look_back(q, new, past.memory, past.view)
        return self.around_attention.leave(x, found), memory

    def _look_across(self, x: Tensor, source: Sight[KeyValues]) -> Tensor:
        assert self.cross is not None
        assert self.around_cross is not None
        q = self.cross.ask(self.around_cross.enter(x), source.view.queries)
        return self.around_cross.leave(x, self.cross(q, source.memory, source.view))
