"""Memory-compressed attention (Liu et al. 2018): words look at every few words as one place.

    k'_c = Σ_t W_t k_{cw+t},   v'_c = Σ_t W'_t v_{cw+t}      t = 0 … w−1: a convolution of stride w

There is a w-th of the keys and values to look at and to keep. The convolution is each head's own
and begins as the mean of its w words.

Looking back, a word sees the places whose words all lie before its own w, and of its own w those up
to itself, as they are: none is compressed with what comes after it, and the first words, too, have
something to look at. Queries are taken some at a time, so that no mask of all pairs is made.
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

AT_ONCE = 256  # queries


class VisibleKeys(NamedTuple):
    """What some queries can look at."""

    keys: Tensor  # (B, H, P, K): places, then words
    values: Tensor
    visible: Tensor | None  # broadcastable to (B, H, T, P)


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
            return _fused(q, self._around(KVCache(k, v), mask.token_mask))
        return self._looking_back(q, None, KVCache(k, v), mask.token_mask)

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """A place's weight is told to its words in equal parts."""
        require_full_or_causal(mask, "compressed")
        words, token_mask = KVCache(k, v), mask.token_mask
        if isinstance(mask.pattern, Full):
            keys_seen, places = self._around(words, token_mask), -(-k.size(2) // self.stride)
        else:
            seen, places = self._hidden(words, token_mask), (words.end - 1) // self.stride
            whole = self._places(None, seen)
            keys_seen = self._back(words.end - q.size(2), words.end, whole, seen, token_mask)
        answers, weights = dot_product_attention(q, *keys_seen)
        first = (words.end - q.size(2)) // self.stride * self.stride
        told = self._told(weights[..., :places], k.size(2), token_mask)
        if weights.size(-1) > places:
            told = told + F.pad(weights[..., places:], (first, 0))
        return answers, told

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        """By word, as the weights are: the logarithms whose softmax they would be."""
        return self.attend_with_weights(q, k, k, mask, position)[1].log()

    def update_cache(self, past: Any, new: KVCache) -> Any:
        """Places, and the last words as they are: those of the unfinished place among them."""
        return new if past is None else compress_prefix(past, self.stride, self._added).append(new)

    def attend(self, q: Tensor, cache: Any, mask: AttentionMask, position: InAttention) -> Tensor:
        if isinstance(cache, KVCache):
            return super().attend(q, cache, mask, position)
        keys, values = cache.before.chunk(2, dim=-1)
        recent = cache.recent.repeat_kv(q.size(1))
        return self._looking_back(q, KVCache(keys, values), recent, None)

    def retain_heads(self, heads: Sequence[int]) -> None:
        self.keys, self.values = (
            nn.Parameter(each.detach()[list(heads)]) for each in (self.keys, self.values)
        )

    def _compressed(self, words: KVCache) -> KVCache:
        """(B, H, w·C, K) → (B, H, C, K), heads that share keys apart again."""
        words = words.repeat_kv(self.keys.size(0))
        keys, values = (_grouped(each, 2, self.stride).flatten(3) for each in words[:2])
        return KVCache(keys @ self.keys, values @ self.values)

    def _added(self, before: Tensor | None, words: KVCache) -> Tensor:
        """Places as one tensor (B, H, C, 2K), to be kept."""
        new = torch.cat(self._compressed(words)[:2], dim=-1)
        return new if before is None else torch.cat([before, new], dim=2)

    def _hidden(self, words: KVCache, token_mask: Tensor | None) -> KVCache:
        """Zeros in the place of padding, so that it gives nothing to what it is compressed with."""
        if token_mask is None:
            return words
        keys, values = (each.masked_fill(~token_mask[:, None, :, None], 0.0) for each in words[:2])
        return KVCache(keys, values, words.offset)

    def _around(self, words: KVCache, token_mask: Tensor | None) -> VisibleKeys:
        """All words, the last place filled up with nothing."""
        lacking = -words.end % self.stride
        keys, values = (
            F.pad(each, (0, 0, 0, lacking)) for each in self._hidden(words, token_mask)[:2]
        )
        places = self._compressed(KVCache(keys, values))
        visible = None if token_mask is None else self._any(F.pad(token_mask, (0, lacking)))
        return VisibleKeys(places.keys, places.values, visible)

    def _any(self, token_mask: Tensor) -> Tensor:
        """Places that have a real word: (B, 1, 1, C)."""
        return _grouped(token_mask, 1, self.stride).any(-1)[:, None, None]

    def _looking_back(
        self, q: Tensor, before: KVCache | None, words: KVCache, token_mask: Tensor | None
    ) -> Tensor:
        words = self._hidden(words, token_mask)
        places = self._places(before, words)
        start, end = words.end - q.size(2), words.end
        answers = []
        for first in range(start, end, AT_ONCE):
            until = min(first + AT_ONCE, end)
            keys_seen = self._back(first, until, places, words, token_mask)
            answers.append(_fused(q[:, :, first - start : until - start], keys_seen))
        return torch.cat(answers, dim=2)

    def _places(self, before: KVCache | None, words: KVCache) -> KVCache:
        """All that are full: those from before, which are of the forgotten words, and new ones."""
        new = self._compressed(words.slice(words.offset, words.end // self.stride * self.stride))
        return new if before is None else before.append(new)

    def _back(
        self, first: int, until: int, places: KVCache, words: KVCache, token_mask: Tensor | None
    ) -> VisibleKeys:
        """What queries at `first` up to `until` see: places before their own, then words of it."""
        stride, device = self.stride, words.keys.device
        start, before = first // stride * stride, (until - 1) // stride
        near = words.slice(start, until)
        i = torch.arange(first, until, device=device)[:, None]
        c, j = torch.arange(before, device=device), torch.arange(start, until, device=device)
        visible = torch.cat([c < i // stride, (j // stride == i // stride) & (j <= i)], dim=1)
        if token_mask is not None:
            far = self._any(token_mask[:, : before * stride])
            visible = visible & torch.cat([far, token_mask[:, None, None, start:until]], dim=-1)
        return VisibleKeys(
            torch.cat([places.keys[:, :, :before], near.keys], dim=2),
            torch.cat([places.values[:, :, :before], near.values], dim=2),
            visible,
        )

    def _told(self, weights: Tensor, length: int, token_mask: Tensor | None) -> Tensor:
        """Weights of places (B, H, T, C) as weights of their real words (B, H, T, length)."""
        spread = weights.repeat_interleave(self.stride, dim=-1)
        spread = F.pad(spread, (0, length - spread.size(-1)))  # shorter, or longer by the filling
        is_token = (
            torch.ones_like(spread[:, :1, :1]) if token_mask is None else token_mask[:, None, None]
        )
        is_token = is_token.to(spread.dtype)
        lacking = -length % self.stride
        counts = _grouped(F.pad(is_token, (0, lacking)), 3, self.stride).sum(-1)
        counts = counts.clamp(min=1).repeat_interleave(self.stride, dim=-1)[..., :length]
        return spread * is_token / counts


def _grouped(x: Tensor, dim: int, stride: int) -> Tensor:
    """An axis as two: the places, and the words of each."""
    return torch.unflatten(x, dim, (x.size(dim) // stride, stride))


def _fused(q: Tensor, keys_seen: VisibleKeys) -> Tensor:
    return F.scaled_dot_product_attention(
        q, keys_seen.keys, keys_seen.values, attn_mask=keys_seen.visible
    )


class Spec(AttentionSpec):
    """attention: {kind: compressed, stride: 3}"""

    supports: ClassVar[frozenset[str]] = frozenset({"causal", "padding", "cache", "cross"})

    renamed_keys: ClassVar[Mapping[str, str]] = {"width": "stride"}

    stride: int = Field(3, gt=0, description="tokens that are compressed into one")

    def build(self, sizes: Sizes) -> Attention:
        return Compressed(sizes.heads, sizes.head_dim, self.stride)
