"""What every kind of attention answers to, and what it declares that it can honour."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.config import Kind
from regard.errors import ConfigError
from regard.positions.base import InAttention, Sizes

# The needs a model or a position can have of an attention, each with the words for refusing it.
CAPABILITIES: Mapping[str, str] = {
    "causal": "look at the past only",
    "padding": "leave padding out",
    "cache": "go on step by step from cached keys and values",
    "cross": "look at another sequence",
    "bias": "add a bias to its scores",
    "values": "add positions to its values",
    "documents": "keep the documents of a row apart",
    "trees": "take words by their places in trees",
}
ALL_CAPABILITIES = frozenset(CAPABILITIES)


class Attention(nn.Module):
    """From queries (B, H, T, K), keys and values (B, H, S, K) to answers (B, H, T, K)."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        raise NotImplementedError

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """The same answers, by way of the weights (B, H, T, S), which come second."""
        raise NotImplementedError

    def update_cache(self, past: Any, new: KVCache) -> Any:
        """What is kept of the words so far for those to come, new ones included, a `Memory`: all of
        it, unless a kind that never looks at the rest, or not so closely, says otherwise."""
        return new if past is None else past.append(new)

    def attend(self, q: Tensor, cache: Any, mask: AttentionMask, position: InAttention) -> Tensor:
        """What the queries find in what is kept, whose places end where the view's do."""
        kept: KVCache = cache.repeat_kv(q.size(1))
        seen = mask.last(kept.keys.size(2)) if kept.offset else mask
        found: Tensor = self(q, kept.keys, kept.values, seen, position)
        return found

    def retain_heads(self, heads: Sequence[int]) -> None:
        """Only these heads go on. What all heads share stays as it is."""

    def dense_mask(self, mask: AttentionMask) -> Tensor | None:
        """Where a query may look, True where it may, and None where all may look at all: as the
        view says, unless a kind looks at fewer."""
        return mask.dense

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        """What the softmax is given (B, H, T, S): q·k / √K and the bias; −∞ where none may look."""
        raise NotImplementedError


class AttentionSpec(Kind, package="regard.attention", default="fused"):
    """A kind of attention. `honours` is the subset of NEEDS that it can meet."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {"blocks": "block-local"}

    supports: ClassVar[frozenset[str]] = frozenset()

    def build(self, sizes: Sizes) -> Attention:
        raise NotImplementedError

    def stack(self, sizes: Sizes, layers: int) -> list[Attention]:
        """One for each layer of a stack: alike, unless they differ or share something."""
        return [self.build(sizes) for _ in range(layers)]

    def require(self, needs: frozenset[str], who: str) -> None:
        """Refuse, once and when the model is built, what this kind cannot do."""
        for need in sorted(needs - self.supports):
            raise ConfigError(
                f"attention '{self.kind()}' cannot {CAPABILITIES[need]}, which {who} needs; "
                f"choose another kind of attention (fused can)."
            )
