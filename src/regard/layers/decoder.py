"""The decoder block: causal self-attention, cross-attention if there is a source, feed-forward.

The KV cache of earlier tokens is an argument and is returned with the new tokens appended, so the
same code serves training (all tokens at once, no past) and decoding (one token, all the past).
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, LayerCache
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.layers.base import ResidualModule
from regard.layers.residual import Residual

C = TypeVar("C", bound=LayerCache)


class CachedInput(NamedTuple, Generic[C]):
    """A cache of earlier tokens or of a source, and the mask of the tokens that attend to it."""

    cache: C | None
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
        self.attention_residual = residual()
        self.cross_residual = residual() if cross is not None else None
        self.feed_forward_residual = residual()

    def forward(
        self, x: Tensor, past: CachedInput[LayerCache], source: CachedInput[KVCache] | None
    ) -> tuple[Tensor, LayerCache]:
        """x (B, T, D) → (B, T, D), and the cache with the new tokens appended."""
        x, cache = self._self_attention(x, past)
        if source is not None:
            x = self._cross_attention(x, source)
        ffn_in = self.feed_forward_residual.sublayer_input(x)
        ffn_out = self.feed_forward(ffn_in, past.mask.needed)
        return self.feed_forward_residual.add(x, ffn_out), cache

    def _self_attention(
        self, x: Tensor, past: CachedInput[LayerCache]
    ) -> tuple[Tensor, LayerCache]:
        attention_in = self.attention_residual.sublayer_input(x)
        q, new = self.attention.project_qkv(attention_in, past.mask.queries)
        output, cache = self.attention.self_attend(q, new, past.cache, past.mask)
        return self.attention_residual.add(x, output), cache

    def _cross_attention(self, x: Tensor, source: CachedInput[KVCache]) -> Tensor:
        assert self.cross is not None
        assert self.cross_residual is not None
        cross_in = self.cross_residual.sublayer_input(x)
        q = self.cross.project_queries(cross_in, source.mask.queries)
        return self.cross_residual.add(x, self.cross(q, source.cache, source.mask))
