"""Linear attention (Katharopoulos et al. 2020): a product of features instead of the softmax.

    o_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)             φ(x) = elu(x) + 1

The sums can be reordered: φ(q_i) (Σ_j φ(k_j) v_jᵀ). The bracket is one K × K matrix for all
queries, so nothing grows with the square of the length. With a causal mask it is a running sum, and
the attention a recurrence:

    S_i = S_{i−1} + φ(k_i) [v_i, 1]ᵀ        [o_i · n_i, n_i] = φ(q_i) S_i

The 1 appended to each value makes the last column of S the denominator of the output.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import Attention, AttentionSpec
from regard.attention.kv_cache import KVCache, compress_prefix
from regard.attention.masks import AttentionMask, Full, require_full_or_causal
from regard.positions.base import InAttention, Sizes

CHUNK = 64  # tokens that are compared pair by pair; those before them are one matrix


class Linear(Attention):
    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        require_full_or_causal(mask, "linear")
        q, k, v = _features(q), _zero_padding(_features(k), mask.token_mask), _with_ones(v)
        if isinstance(mask.pattern, Full):
            return _divided(q @ _sums(k, v))
        past = k.size(2) - q.size(2)
        before = _sums(k[:, :, :past], v[:, :, :past])
        return _divided(_causal(q, k[:, :, past:], v[:, :, past:], before))

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        require_full_or_causal(mask, "linear")
        products = _features(q) @ _features(k).transpose(-2, -1)
        if mask.dense is not None:
            products = products.masked_fill(~mask.dense, 0.0)
        weights = _safe_divide(products, products.sum(-1, keepdim=True))
        return weights @ v, weights

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        """Return the logarithms of the weights: there is no softmax."""
        return self.attend_with_weights(q, k, k, mask, position)[1].log()

    def update_cache(self, past: Any, new: KVCache) -> Any:
        """Cache the last tokens for exact rollback, and one sum of all tokens before them."""
        return new if past is None else compress_prefix(past, 1, _added).append(new)

    def attend(self, q: Tensor, cache: Any, mask: AttentionMask, position: InAttention) -> Tensor:
        if isinstance(cache, KVCache):
            return super().attend(q, cache, mask, position)
        recent = cache.recent.repeat_kv(q.size(1))
        before = cache.before.repeat_interleave(q.size(1) // cache.before.size(1), dim=1)
        k, v = _features(recent.keys), _with_ones(recent.values)
        past = k.size(2) - q.size(2)
        before = before + _sums(k[:, :, :past], v[:, :, :past])
        sums = _causal(_features(q), k[:, :, past:], v[:, :, past:], before)
        return _divided(sums)


def _features(x: Tensor) -> Tensor:
    return F.elu(x) + 1


def _with_ones(v: Tensor) -> Tensor:
    return torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)


def _zero_padding(k: Tensor, token_mask: Tensor | None) -> Tensor:
    return k if token_mask is None else k.masked_fill(~token_mask[:, None, :, None], 0.0)


def _sums(k: Tensor, v: Tensor) -> Tensor:
    """Σ_j φ(k_j) [v_j, 1]ᵀ: (…, K, K+1)."""
    return k.transpose(-2, -1) @ v


def _added(before: Tensor | None, tokens: KVCache) -> Tensor:
    sums = _sums(_features(tokens.keys), _with_ones(tokens.values))
    return sums if before is None else before + sums


def _causal(q: Tensor, k: Tensor, v: Tensor, before: Tensor) -> Tensor:
    """Causal attention of T tokens, after the tokens of the sum `before`, in chunks: pair by pair
    within a chunk, by sums for the chunks before it. T × CHUNK pairs and T / CHUNK sums in all."""
    length = q.size(2)
    size = min(CHUNK, length)
    q, k, v = (_in_chunks(x, size) for x in (q, k, v))  # (B, H, N, C, ·)
    sums = _sums(k, v)  # (B, H, N, K, K+1)
    sums = torch.cat([before[:, :, None], sums[:, :, :-1]], dim=2)
    single = torch.promote_types(sums.dtype, torch.float32)  # long sums lose too much in bfloat16
    until = sums.cumsum(2, dtype=single).to(sums.dtype)
    outputs = q @ until + (q @ k.transpose(-2, -1)).tril() @ v
    return outputs.flatten(2, 3)[:, :, :length]


def _in_chunks(x: Tensor, size: int) -> Tensor:
    """Split the length into chunks, the last one padded with zeros."""
    return torch.unflatten(F.pad(x, (0, 0, 0, -x.size(2) % size)), 2, (-1, size))


def _divided(sums: Tensor) -> Tensor:
    """Divide by the last column, the denominator of the output."""
    return _safe_divide(sums[..., :-1], sums[..., -1:])


def _safe_divide(numerator: Tensor, total: Tensor) -> Tensor:
    """Divide; zeros, forward and backward, for a query that attends to nothing."""
    return numerator / total.masked_fill(total == 0, 1.0)


class Spec(AttentionSpec):
    """attention: linear"""

    supports: ClassVar[frozenset[str]] = frozenset({"causal", "padding", "cache", "cross"})

    def build(self, sizes: Sizes) -> Attention:
        return Linear()
