"""Bare self-attention as a layer: what a word looks for, offers and gives is the word itself.

Y = softmax(X Xᵀ) X          no W_Q, W_K, W_V or W_O, no feed-forward network, nothing around it
"""

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.soft_lookup import Bare
from regard.layers.base import ResidualModule
from regard.layers.decoder import CachedInput
from regard.positions.base import InAttention


class BareAttention(nn.Module):
    """One head, whose queries, keys and values are its input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Bare()
        self.position = InAttention()

    def forward(self, q: Tensor, cache: KVCache, mask: AttentionMask) -> Tensor:
        """What each of q (B, 1, T, D) finds in the memory: (B, T, D)."""
        found: Tensor = self.attention(q, cache.keys, cache.values, mask, self.position)
        return found.squeeze(1)


class BareLookBack(ResidualModule):
    """Each word at itself and those before it; stands where a decoder has its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = BareAttention()

    def forward(self, x: Tensor, past: CachedInput[KVCache], _: None) -> tuple[Tensor, KVCache]:
        """x (B, T, D) → (B, T, D), and the past and new words together."""
        words = x.unsqueeze(1)
        new = KVCache(words, words)
        cache = new if past.cache is None else past.cache.append(new)
        return self.attention(words, cache, past.mask), cache


class BareLookAround(ResidualModule):
    """Each word at all; stands where an encoder has its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = BareAttention()

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        words = x.unsqueeze(1)
        found: Tensor = self.attention(words, KVCache(words, words), mask)
        return found
