"""The score of both states beside each other (Luong et al. 2015).

    e = v · tanh(W [s; a])

Of the one matrix each state meets its own half, W [s; a] = W_s s + W_a a: the additive score, less
its bias.
"""

from regard.attention.scores.additive import Additive
from regard.attention.scores.base import ScoreSpec


class Spec(ScoreSpec):
    """score: concat"""

    def build(self, dim: int) -> Additive:
        return Additive(dim, bias=False)
