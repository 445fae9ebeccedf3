"""The score of the concatenated states (Luong et al. 2015).

    e = v · tanh(W [s; a])

W splits into one half for each state, W [s; a] = W_s s + W_a a: the additive score without its
bias.
"""

from regard.attention.scores.additive import Additive
from regard.attention.scores.base import ScoreSpec


class Spec(ScoreSpec):
    """score: concat"""

    def build(self, dim: int) -> Additive:
        return Additive(dim, bias=False)
