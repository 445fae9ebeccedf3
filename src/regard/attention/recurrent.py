"""Attention of a recurrent decoder to the states of a source (Bahdanau et al. 2015).

    c = Σ_j softmax_j(score(s, a_j)) a_j

The values are the states of the source, the keys are computed from them by the score, and there is
one head. It is not a kind for Transformers: the score projects its arguments itself.
"""

from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.reference import weighted_average
from regard.attention.scores.base import Score
from regard.positions.base import InAttention


class RecurrentAttention(Attention):
    """Average values (B, 1, S, D) by the scores of queries (B, 1, T, K) and keys (B, 1, S, K)."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        return self.attend_with_weights(q, k, v, mask, position)[0]

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        return weighted_average(self.score(q, k), v, mask.dense)

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        scores: Tensor = self.score(q, k)
        return scores if mask.dense is None else scores.masked_fill(~mask.dense, float("-inf"))


class RecurrentCrossAttention(nn.Module):
    """The attention with its projections, the counterpart of `MultiHead` in a Transformer."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.attention = RecurrentAttention(score)
        self.position = InAttention()  # positions of different sequences have no distance

    def project_keys_values(self, source: Tensor) -> KVCache:
        """Return the keys and values of the states of a source (B, S, D), computed once."""
        return KVCache(self.attention.score.keys(source)[:, None], source[:, None])

    def forward(self, states: Tensor, source: KVCache, mask: AttentionMask) -> Tensor:
        """Return the context (B, T, D) of each decoder state (B, T, D)."""
        q = self.attention.score.query(states)[:, None]
        context: Tensor = self.attention(q, source.keys, source.values, mask, self.position)
        return context[:, 0]
