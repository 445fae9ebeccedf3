"""Linformer (Wang et al. 2020): keys and values are projected along the length to `rank` rows.

    o_i = Σ_r softmax_r(q_i · (Eᵀk)_r / √K) (Fᵀv)_r            E, F: max_length × rank, learned

Row j of E holds the weights of token j in each of the `rank` rows that queries attend to, so time
and memory grow with the length times the rank. A row mixes tokens of the whole text: attention
cannot be causal, and there is no step-by-step decoding.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.base import Attention, AttentionSpec
from regard.attention.masks import AttentionMask, Full
from regard.attention.reference import dot_product_attention
from regard.errors import ConfigError
from regard.positions.base import InAttention, Sizes

Share = Literal["none", "heads", "keys-values", "layers"]


class Linformer(Attention):
    def __init__(self, e: nn.Parameter, f: nn.Parameter) -> None:
        """Take E and F (heads or 1, max_length, rank), which may be the same parameter."""
        super().__init__()
        self.e, self.f = e, f

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        return F.scaled_dot_product_attention(q, *self._projected(k, v, mask))

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """Distribute the weight of each projected row over the real tokens, by |F|."""
        output, weights = dot_product_attention(q, *self._projected(k, v, mask))  # (B, H, T, rank)
        sizes = _without_padding(self.f[:, : v.size(2)].abs()[None], mask)  # (B, H, S, rank)
        shares = sizes / sizes.sum(2, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)
        return output, weights @ shares.transpose(-2, -1)

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        """Return the logarithms of the weights, by token."""
        return self.attend_with_weights(q, k, k, mask, position)[1].log()

    def retain_heads(self, heads: Sequence[int]) -> None:
        if self.e.size(0) > 1:
            self.e, self.f = (nn.Parameter(x.detach()[list(heads)]) for x in (self.e, self.f))

    def _projected(self, k: Tensor, v: Tensor, mask: AttentionMask) -> tuple[Tensor, Tensor]:
        """Return Eᵀk and Fᵀv, (B, H, rank, K) each."""
        length, longest = k.size(2), self.e.size(1)
        if length > longest:
            raise ConfigError(
                f"model.attention: 'linformer' has learned projections for {longest} tokens and "
                f"got {length}; set model.max_length to the longest text."
            )
        if not isinstance(mask.pattern, Full) or mask.documents is not None:
            raise ConfigError(
                "model.attention: 'linformer' mixes all tokens: it can mask padding only."
            )
        keys = _project(self.e, _without_padding(k, mask))
        return keys, _project(self.f, _without_padding(v, mask))


def _project(e: Tensor, x: Tensor) -> Tensor:
    """Return Eᵀx (B, H, rank, K).

    It is computed as (xᵀE)ᵀ with all rows in one product: the gradient of E, the largest tensor
    here, is then computed once and has the memory layout of E.
    """
    batch, heads, length, size = x.shape
    e = e[:, :length]
    columns = x.permute(1, 0, 3, 2).reshape(len(e), -1, length)  # (1 or H, ·, S)
    return (columns @ e).view(heads, batch, size, -1).permute(1, 0, 3, 2).contiguous()


def _without_padding(x: Tensor, mask: AttentionMask) -> Tensor:
    """Return x (B, H, S, ·) with zeros at padding."""
    return x if mask.token_mask is None else x.masked_fill(~mask.token_mask[:, None, :, None], 0.0)


class Spec(AttentionSpec):
    """attention: {kind: linformer, rank: 64, share: heads}"""

    supports: ClassVar[frozenset[str]] = frozenset({"padding"})

    rank: int = Field(64, gt=0, le=1 << 16, description="rows that the length is projected to")
    share: Share = Field(
        "none",
        description="sharing of the projections: none (E and F for each head), heads (E and F for "
        "all heads), keys-values (E = F as well), layers (one E for the whole stack)",
    )

    def build(self, sizes: Sizes) -> Attention:
        e = self._drawn(sizes)
        return Linformer(e, e if self.share in ("keys-values", "layers") else self._drawn(sizes))

    def stack(self, sizes: Sizes, layers: int) -> list[Attention]:
        if self.share != "layers":
            return super().stack(sizes, layers)
        e = self._drawn(sizes)
        return [Linformer(e, e) for _ in range(layers)]

    def _drawn(self, sizes: Sizes) -> nn.Parameter:
        """Draw from N(0, 1/rank): products of projected vectors keep their mean."""
        if self.rank > sizes.max_length:
            raise ConfigError(
                f"model.attention.rank {self.rank} is more than model.max_length "
                f"{sizes.max_length}: more rows than tokens gain nothing; choose a smaller rank."
            )
        heads = sizes.heads if self.share == "none" else 1
        return nn.Parameter(torch.randn(heads, sizes.max_length, self.rank) / self.rank**0.5)
