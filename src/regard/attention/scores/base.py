"""How well a decoder's state fits each state of a source, one file a kind.

    e_tj = score(s_{t−1}, a_j),   α_tj = softmax_j(e_tj),   c_t = Σ_j α_tj a_j

What depends on the source alone (`keys`) is worked out once, what depends on the decoder's state
(`query`) once a word; `forward` compares the two.
"""

from torch import Tensor, nn

from regard.config import Kind


class Score(nn.Module):
    """From decoder states s and source states a, of size D each, to one number a pair."""

    def query(self, s: Tensor) -> Tensor:
        """(…, T, D) → (…, T, K)"""
        return s

    def keys(self, a: Tensor) -> Tensor:
        """(…, S, D) → (…, S, K)"""
        return a

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (…, T, K), k (…, S, K) → (…, T, S)"""
        return q @ k.transpose(-2, -1)


class ScoreSpec(Kind, package="regard.attention.scores", default="additive"):
    """A kind of score."""

    def build(self, dim: int) -> Score | None:
        """None where the source is not looked at."""
        raise NotImplementedError
