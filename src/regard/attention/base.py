"""The interface of a kind of attention, and the capabilities that it declares."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.config import Kind
from regard.errors import ConfigError
from regard.positions.base import InAttention, Sizes

# Capabilities that a model or a position may require, with the verb phrase of the error message.
CAPABILITIES: Mapping[str, str] = {
    "causal": "attend causally",
    "padding": "ignore padding",
    "cache": "decode step by step from a KV cache",
    "cross": "attend to another sequence",
    "bias": "add a bias to its scores",
    "values": "add positions to its values",
    "documents": "mask other documents of a row",
    "trees": "use positions in dependency trees",
}
ALL_CAPABILITIES = frozenset(CAPABILITIES)


class Attention(nn.Module):
    """Map queries (B, H, T, K), keys and values (B, H, S, K) to outputs (B, H, T, K)."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        raise NotImplementedError

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of `forward` and the attention weights (B, H, T, S)."""
        raise NotImplementedError

    def update_cache(self, past: Any, new: KVCache) -> Any:
        """Return the cache extended by `new`, a `LayerCache`.

        All tokens are cached, unless a kind never attends to the older ones or compresses them.
        """
        return new if past is None else past.append(new)

    def attend(self, q: Tensor, cache: Any, mask: AttentionMask, position: InAttention) -> Tensor:
        """Attend to a cache, whose last token is the last key of the mask."""
        cached: KVCache = cache.repeat_kv(q.size(1))
        mask = mask.last(cached.keys.size(2)) if cached.offset else mask
        output: Tensor = self(q, cached.keys, cached.values, mask, position)
        return output

    def retain_heads(self, heads: Sequence[int]) -> None:
        """Remove all other heads. Parameters that heads share do not change."""

    def dense_mask(self, mask: AttentionMask) -> Tensor | None:
        """Return the dense mask, True = may attend, or None if every query attends to every key.

        It is that of `mask`, unless a kind attends to fewer keys.
        """
        return mask.dense

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        """Return the input of the softmax (B, H, T, S): q·k / √K + bias, −∞ where masked."""
        raise NotImplementedError


class AttentionSpec(Kind, package="regard.attention", default="fused"):
    """A kind of attention. `supports` is the subset of CAPABILITIES that it has."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {"blocks": "block-local"}

    supports: ClassVar[frozenset[str]] = frozenset()

    def build(self, sizes: Sizes) -> Attention:
        raise NotImplementedError

    def stack(self, sizes: Sizes, layers: int) -> list[Attention]:
        """Build one attention for each layer of a stack, which may differ or share parameters."""
        return [self.build(sizes) for _ in range(layers)]

    def require(self, capabilities: frozenset[str], who: str, key: str = "model.attention") -> None:
        """Raise ConfigError, when a model is built, if a capability is missing.

        `who` is the part that needs them, by its key if it has one; `key` is that of this kind.
        """
        for missing in sorted(capabilities - self.supports):
            raise ConfigError(
                f"{key}: '{self.kind()}' cannot {CAPABILITIES[missing]}, which {who} needs; "
                f"choose another kind of attention (fused can)."
            )
