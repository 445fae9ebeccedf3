"""Self-attention without parameters as a layer: queries, keys and values are the input itself.

Y = softmax(X Xᵀ) X          no W_Q, W_K, W_V, W_O, feed-forward network, residual or norm
"""

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.soft_lookup import UnscaledAttention
from regard.layers.base import ResidualModule
from regard.layers.decoder import CachedInput
from regard.positions.base import InAttention


class ParameterFreeAttention(nn.Module):
    """One head whose queries, keys and values are its input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = UnscaledAttention()
        self.position = InAttention()

    def forward(self, q: Tensor, cache: KVCache, mask: AttentionMask) -> Tensor:
        """q (B, 1, T, D) → (B, T, D)."""
        output: Tensor = self.attention(q, cache.keys, cache.values, mask, self.position)
        return output.squeeze(1)


class ParameterFreeDecoderBlock(ResidualModule):
    """Causal self-attention without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = ParameterFreeAttention()

    def forward(self, x: Tensor, past: CachedInput[KVCache], _: None) -> tuple[Tensor, KVCache]:
        """x (B, T, D) → (B, T, D), and the cache with the new tokens appended."""
        tokens = x.unsqueeze(1)
        new = KVCache(tokens, tokens)
        cache = new if past.cache is None else past.cache.append(new)
        return self.attention(tokens, cache, past.mask), cache


class ParameterFreeEncoderBlock(ResidualModule):
    """Bidirectional self-attention without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = ParameterFreeAttention()

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        tokens = x.unsqueeze(1)
        output: Tensor = self.attention(tokens, KVCache(tokens, tokens), mask)
        return output
