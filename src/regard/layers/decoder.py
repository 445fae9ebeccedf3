"""The decoder block: look back, look across where there is a source, then think each word over.

The keys and values of earlier words are an argument and come back longer, so that the same lines
serve training (all words at once, no past) and decoding (one word, all the past).
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, LayerCache
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.layers.base import ResidualModule
from regard.layers.residual import Residual

M = TypeVar("M", bound=LayerCache)


class CachedInput(NamedTuple, Generic[M]):
    """What a block can look at: a memory, and who may look at what in it."""

    cache: M | None
    mask: AttentionMask


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
        self, x: Tensor, past: CachedInput[LayerCache], source: CachedInput[KVCache] | None
    ) -> tuple[Tensor, LayerCache]:
        """x (B, T, D) → (B, T, D), and what is kept of past and new words together."""
        x, cache = self._self_attention(x, past)
        if source is not None:
            x = self._cross_attention(x, source)
        thought = self.feed_forward(self.around_feed_forward.enter(x), past.mask.needed)
        return self.around_feed_forward.leave(x, thought), cache

    def _self_attention(
        self, x: Tensor, past: CachedInput[LayerCache]
    ) -> tuple[Tensor, LayerCache]:
        q, new = self.attention.project_qkv(self.around_attention.enter(x), past.mask.queries)
        found, cache = self.attention.self_attend(q, new, past.cache, past.mask)
        return self.around_attention.leave(x, found), cache

    def _cross_attention(self, x: Tensor, source: CachedInput[KVCache]) -> Tensor:
        assert self.cross is not None
        assert self.around_cross is not None
        q = self.cross.project_queries(self.around_cross.enter(x), source.mask.queries)
        return self.around_cross.leave(x, self.cross(q, source.cache, source.mask))
