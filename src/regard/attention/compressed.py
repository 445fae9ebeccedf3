"""Memory-compressed attention (Liu et al. 2018): a strided convolution shortens keys and values.

    k'_c = Σ_t W_t k_{cw+t},   v'_c = Σ_t W'_t v_{cw+t}      t = 0 … w−1: a convolution of stride w

Attention and cache then hold 1/w of the keys and values, one slot for each group of w tokens. Each
head has a convolution of its own, initialized to the mean of the w tokens.

With a causal mask, a token attends to the slots of earlier groups, and to the uncompressed tokens
of its own group up to itself: no token is compressed with later ones, and the first tokens have
keys, too. Queries are processed in chunks, so that no mask of all pairs is allocated.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.base import Attention, AttentionSpec
from regard.attention.kv_cache import KVCache, compress_prefix
from regard.attention.masks import AttentionMask, Full, require_full_or_causal
from regard.attention.reference import dot_product_attention
from regard.positions.base import InAttention, Sizes

QUERY_CHUNK = 256


class VisibleKeys(NamedTuple):
    """Keys and values that some queries may attend to."""

    keys: Tensor  # (B, H, P, K): slots, then tokens
    values: Tensor
    visible: Tensor | None  # broadcastable to (B, H, T, P), True = may attend


class Compressed(Attention):
    def __init__(self, heads: int, head_dim: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        mean = (torch.eye(head_dim) / stride).repeat(heads, stride, 1)  # (H, w·K, K)
        self.keys = nn.Parameter(mean)
        self.values = nn.Parameter(mean.clone())

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        require_full_or_causal(mask, "compressed")
        if isinstance(mask.pattern, Full):
            return _fused(q, self._all_slots(KVCache(k, v), mask.token_mask))
        return self._causal(q, None, KVCache(k, v), mask.token_mask)

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """Distribute the weight of a slot over its tokens in equal parts."""
        require_full_or_causal(mask, "compressed")
        tokens, token_mask = KVCache(k, v), mask.token_mask
        if isinstance(mask.pattern, Full):
            visible_keys = self._all_slots(tokens, token_mask)
            slots = -(-k.size(2) // self.stride)
        else:
            masked, slots = self._zero_padding(tokens, token_mask), (tokens.end - 1) // self.stride
            full_slots = self._slots(None, masked)
            start = tokens.end - q.size(2)
            visible_keys = self._causal_keys(start, tokens.end, full_slots, masked, token_mask)
        output, weights = dot_product_attention(q, *visible_keys)
        first = (tokens.end - q.size(2)) // self.stride * self.stride
        token_weights = self._token_weights(weights[..., :slots], k.size(2), token_mask)
        if weights.size(-1) > slots:
            token_weights = token_weights + F.pad(weights[..., slots:], (first, 0))
        return output, token_weights

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        """Return the logarithms of the weights, by token."""
        return self.attend_with_weights(q, k, k, mask, position)[1].log()

    def update_cache(self, past: Any, new: KVCache) -> Any:
        """Cache slots, and the last tokens uncompressed: those of the unfinished group too."""
        return new if past is None else compress_prefix(past, self.stride, self._added).append(new)

    def attend(self, q: Tensor, cache: Any, mask: AttentionMask, position: InAttention) -> Tensor:
        if isinstance(cache, KVCache):
            return super().attend(q, cache, mask, position)
        keys, values = cache.before.chunk(2, dim=-1)
        recent = cache.recent.repeat_kv(q.size(1))
        return self._causal(q, KVCache(keys, values), recent, None)

    def retain_heads(self, heads: Sequence[int]) -> None:
        self.keys, self.values = (
            nn.Parameter(kernel.detach()[list(heads)]) for kernel in (self.keys, self.values)
        )

    def _compressed(self, tokens: KVCache) -> KVCache:
        """Compress (B, H, w·C, K) to (B, H, C, K), with shared key heads repeated."""
        tokens = tokens.repeat_kv(self.keys.size(0))
        keys, values = (_grouped(x, 2, self.stride).flatten(3) for x in tokens[:2])
        return KVCache(keys @ self.keys, values @ self.values)

    def _added(self, before: Tensor | None, tokens: KVCache) -> Tensor:
        """Return the slots `before` and those of `tokens` as one tensor (B, H, C, 2K)."""
        new = torch.cat(self._compressed(tokens)[:2], dim=-1)
        return new if before is None else torch.cat([before, new], dim=2)

    def _zero_padding(self, tokens: KVCache, token_mask: Tensor | None) -> KVCache:
        """Set padding to zero, so that it adds nothing to its slot."""
        if token_mask is None:
            return tokens
        keys, values = (x.masked_fill(~token_mask[:, None, :, None], 0.0) for x in tokens[:2])
        return KVCache(keys, values, tokens.offset)

    def _all_slots(self, tokens: KVCache, token_mask: Tensor | None) -> VisibleKeys:
        """Compress all tokens, with the last group padded by zeros."""
        missing = -tokens.end % self.stride
        keys, values = (
            F.pad(x, (0, 0, 0, missing)) for x in self._zero_padding(tokens, token_mask)[:2]
        )
        slots = self._compressed(KVCache(keys, values))
        visible = None if token_mask is None else self._slot_mask(F.pad(token_mask, (0, missing)))
        return VisibleKeys(slots.keys, slots.values, visible)

    def _slot_mask(self, token_mask: Tensor) -> Tensor:
        """Return the mask of slots with a real token: (B, 1, 1, C)."""
        return _grouped(token_mask, 1, self.stride).any(-1)[:, None, None]

    def _causal(
        self, q: Tensor, before: KVCache | None, tokens: KVCache, token_mask: Tensor | None
    ) -> Tensor:
        """Attend causally to the slots `before` (of evicted tokens) and to `tokens`, in chunks."""
        tokens = self._zero_padding(tokens, token_mask)
        slots = self._slots(before, tokens)
        start, end = tokens.end - q.size(2), tokens.end
        outputs = []
        for first in range(start, end, QUERY_CHUNK):
            until = min(first + QUERY_CHUNK, end)
            visible_keys = self._causal_keys(first, until, slots, tokens, token_mask)
            outputs.append(_fused(q[:, :, first - start : until - start], visible_keys))
        return torch.cat(outputs, dim=2)

    def _slots(self, before: KVCache | None, tokens: KVCache) -> KVCache:
        """Return the slots of all whole groups: `before`, of evicted tokens, and new ones."""
        new = self._compressed(tokens.slice(tokens.offset, tokens.end // self.stride * self.stride))
        return new if before is None else before.append(new)

    def _causal_keys(
        self, first: int, until: int, slots: KVCache, tokens: KVCache, token_mask: Tensor | None
    ) -> VisibleKeys:
        """Return the keys of queries `first` up to `until`: slots of earlier groups, then tokens of
        their own groups."""
        stride, device = self.stride, tokens.keys.device
        start, before = first // stride * stride, (until - 1) // stride
        near = tokens.slice(start, until)
        i = torch.arange(first, until, device=device)[:, None]
        c, j = torch.arange(before, device=device), torch.arange(start, until, device=device)
        visible = torch.cat([c < i // stride, (j // stride == i // stride) & (j <= i)], dim=1)
        if token_mask is not None:
            far = self._slot_mask(token_mask[:, : before * stride])
            visible = visible & torch.cat([far, token_mask[:, None, None, start:until]], dim=-1)
        return VisibleKeys(
            torch.cat([slots.keys[:, :, :before], near.keys], dim=2),
            torch.cat([slots.values[:, :, :before], near.values], dim=2),
            visible,
        )

    def _token_weights(self, weights: Tensor, length: int, token_mask: Tensor | None) -> Tensor:
        """Distribute weights of slots (B, H, T, C) over their real tokens (B, H, T, length)."""
        repeated = weights.repeat_interleave(self.stride, dim=-1)
        repeated = F.pad(repeated, (0, length - repeated.size(-1)))  # pads, or cuts the padding off
        is_token = (
            torch.ones_like(repeated[:, :1, :1])
            if token_mask is None
            else token_mask[:, None, None]
        )
        is_token = is_token.to(repeated.dtype)
        missing = -length % self.stride
        counts = _grouped(F.pad(is_token, (0, missing)), 3, self.stride).sum(-1)
        counts = counts.clamp(min=1).repeat_interleave(self.stride, dim=-1)[..., :length]
        return repeated * is_token / counts


def _grouped(x: Tensor, dim: int, stride: int) -> Tensor:
    """Split an axis in two: groups, and the tokens of each."""
    return torch.unflatten(x, dim, (x.size(dim) // stride, stride))


def _fused(q: Tensor, visible_keys: VisibleKeys) -> Tensor:
    keys, values, visible = visible_keys
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=visible)


class Spec(AttentionSpec):
    """attention: {kind: compressed, stride: 3}"""

    supports: ClassVar[frozenset[str]] = frozenset({"causal", "padding", "cache", "cross"})

    renamed_keys: ClassVar[Mapping[str, str]] = {"width": "stride"}

    stride: int = Field(3, gt=0, le=1 << 16, description="tokens that are compressed into one slot")

    def build(self, sizes: Sizes) -> Attention:
        return Compressed(sizes.heads, sizes.head_dim, self.stride)
