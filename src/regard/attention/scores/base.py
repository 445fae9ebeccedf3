"""The interface of a score: compare a decoder state with each state of the source.

    e_tj = score(s_{t−1}, a_j),   α_tj = softmax_j(e_tj),   c_t = Σ_j α_tj a_j

`keys` depends on the source alone and is computed once; `query` depends on the decoder state and is
computed once a token; `forward` compares the two.
"""

from torch import Tensor, nn

from regard.config import Kind


class Score(nn.Module):
    """Map decoder states s and source states a, of size D each, to one number for each pair."""

    def query(self, s: Tensor) -> Tensor:
        """Return the queries of decoder states: (…, T, D) → (…, T, K)."""
        return s

    def keys(self, a: Tensor) -> Tensor:
        """Return the keys of source states: (…, S, D) → (…, S, K)."""
        return a

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores: q (…, T, K), k (…, S, K) → (…, T, S)."""
        return q @ k.transpose(-2, -1)


class ScoreSpec(Kind, package="regard.attention.scores", default="additive"):
    """A kind of score."""

    def build(self, dim: int) -> Score | None:
        """Return the score, or None if the decoder does not attend to the source."""
        raise NotImplementedError
