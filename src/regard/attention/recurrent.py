"""A decoder's state looks at the states of a source: attention as it began (Bahdanau et al. 2015).

    c = Σ_j softmax_j(score(s, a_j)) a_j

The values are the source's states themselves, the keys what the score makes of them, and there is
one head. No kind of its own for a Transformer: what a score compares, it has to project itself.
"""

from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.reference import weighted_average
from regard.attention.scores.base import Score
from regard.positions.base import InAttention


class RecurrentAttention(Attention):
    """Queries (B, 1, T, K) look at keys (B, 1, S, K) and find an average of values (B, 1, S, D)."""

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
        found: Tensor = self.score(q, k)
        return found if mask.dense is None else found.masked_fill(~mask.dense, float("-inf"))


class RecurrentCrossAttention(nn.Module):
    """The attention with what projects for it, as `MultiHead` is in a Transformer."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.attention = RecurrentAttention(score)
        self.position = InAttention()  # places in two different sequences have no distance

    def project_keys_values(self, source: Tensor) -> KVCache:
        """The keys and values of a source's states (B, S, D), worked out once."""
        return KVCache(self.attention.score.keys(source)[:, None], source[:, None])

    def forward(self, states: Tensor, source: KVCache, mask: AttentionMask) -> Tensor:
        """What each of the decoder's states (B, T, D) finds: (B, T, D)."""
        q = self.attention.score.query(states)[:, None]
        found: Tensor = self.attention(q, source.keys, source.values, mask, self.position)
        return found[:, 0]
