"""Multi-head attention (Vaswani et al. 2017, section 3.2.2), which owns W_Q, W_K, W_V and W_O.

    q = x W_Q,  k = x W_K,  v = x W_V          each D × (H·K), then split into H heads of size K
    head_h = softmax(q_h k_hᵀ / √K) v_h
    output = [head_1 … head_H] W_O             W_O is (H·K) × D

Several heads need no loop and cost as much as one: splitting is a reshape, and the head axis is a
second batch axis. Self-attention projects one sequence to all three; cross-attention projects one
sequence to queries and another to keys and values.

With kv_heads < heads, groups of heads share keys and values (grouped-query attention, Ainslie et
al. 2023), and the KV cache is smaller.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.kv_cache import KVCache, LayerCache
from regard.attention.masks import AttentionMask
from regard.errors import ConfigError
from regard.positions.base import InAttention, Sizes


class MultiHead(nn.Module):
    def __init__(
        self, sizes: Sizes, attention: Attention, position: InAttention, bias: bool
    ) -> None:
        super().__init__()
        self.heads, self.head_dim = sizes.heads, sizes.head_dim
        self.kv_heads = sizes.kv_heads or sizes.heads
        width, kv_width = sizes.heads * sizes.head_dim, self.kv_heads * sizes.head_dim
        self.w_q = nn.Linear(sizes.dim, width, bias)
        self.w_k = nn.Linear(sizes.dim, kv_width, bias)
        self.w_v = nn.Linear(sizes.dim, kv_width, bias)
        self.w_o = nn.Linear(width, sizes.dim, bias)
        self.attention = attention
        self.position = position

    def project_queries(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return the queries (B, H, T, K) of x (B, T, D)."""
        return self.position.rotate(self._split(self.w_q(x)), positions)

    def project_keys_values(self, x: Tensor, positions: Tensor) -> KVCache:
        """Return the keys and values of x (B, S, D)."""
        k, v = _together(x, self.w_k, self.w_v)
        return KVCache(self.position.rotate(self._split(k), positions), self._split(v))

    def project_qkv(self, x: Tensor, positions: Tensor) -> tuple[Tensor, KVCache]:
        """Return queries, keys and values of the same x (B, T, D), for self-attention."""
        q, k, v = _together(x, self.w_q, self.w_k, self.w_v)
        rotate = self.position.rotate
        cache = KVCache(rotate(self._split(k), positions), self._split(v))
        return rotate(self._split(q), positions), cache

    def self_attend(
        self, q: Tensor, new: KVCache, past: LayerCache | None, mask: AttentionMask
    ) -> tuple[Tensor, LayerCache]:
        """Attend to past and new tokens; return the output (B, T, D) and the extended cache."""
        cache: LayerCache = self.attention.update_cache(past, new)
        return self(q, cache, mask), cache

    def forward(self, q: Tensor, cache: LayerCache, mask: AttentionMask) -> Tensor:
        """Attend to a cache and merge the heads: (B, T, D)."""
        position = self.position.on(mask.trees)
        output = self.attention.attend(q, cache, mask, position)
        merged: Tensor = self.w_o(output.transpose(1, 2).flatten(2))  # (B, H, T, K) → (B, T, H·K)
        return merged

    def retain_heads(self, heads: Sequence[int]) -> None:
        """Remove all other heads: their rows of W_Q, W_K and W_V, their columns of W_O.

        Heads that share keys and values (a group) may lose some of their number: the rest share
        the same keys. Groups that remain must be of one size, since a head finds its keys by it.
        """
        if sorted(set(heads)) != list(heads) or not set(heads) <= set(range(self.heads)):
            raise ConfigError(
                f"heads to retain are numbers from 0 to {self.heads - 1} in order, not "
                f"{list(heads)}."
            )
        if not heads:
            raise ConfigError("at least one head of each attention must be retained.")
        group_sizes = Counter(head * self.kv_heads // self.heads for head in heads)
        if len(set(group_sizes.values())) > 1:
            raise ConfigError(
                f"each {self.heads // self.kv_heads} heads in a row share keys and values: retain "
                f"the same number of every group that stays, not {list(heads)}."
            )
        queries, keys = (_rows(numbers, self.head_dim) for numbers in (heads, sorted(group_sizes)))
        for linear, rows in ((self.w_q, queries), (self.w_k, keys), (self.w_v, keys)):
            linear.out_features = len(rows)
            linear.weight = nn.Parameter(linear.weight.detach()[rows])
            if linear.bias is not None:
                linear.bias = nn.Parameter(linear.bias.detach()[rows])
        self.w_o.in_features = len(queries)
        self.w_o.weight = nn.Parameter(self.w_o.weight.detach()[:, queries].contiguous())
        self.attention.retain_heads(heads)
        self.position.retain_heads(heads)
        self.heads, self.kv_heads = len(heads), len(group_sizes)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)  # (B, H, T, K)


def _rows(heads: Sequence[int], head_dim: int) -> list[int]:
    return [head * head_dim + row for head in heads for row in range(head_dim)]


def _together(x: Tensor, *maps: Any) -> tuple[Tensor, ...]:
    """Apply several linear maps to one x by one matrix product: fewer, larger ones are faster.

    A map may have an adapter: its base is part of the product, and its update is added.
    """
    bases = [getattr(linear, "base", linear) for linear in maps]
    weight = torch.cat(tuple(base.weight for base in bases))
    biases = tuple(base.bias for base in bases if base.bias is not None)
    product = F.linear(x, weight, torch.cat(biases) if biases else None)
    parts = torch.split(product, [base.out_features for base in bases], dim=-1)
    return tuple(
        part if linear is base else part + linear.low_rank_update(x)
        for part, linear, base in zip(parts, maps, bases, strict=True)
    )
