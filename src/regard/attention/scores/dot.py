"""The dot product (Luong et al. 2015): no parameters; similar states attend to each other.

e = s · a
"""

from regard.attention.scores.base import Score, ScoreSpec


class Spec(ScoreSpec):
    """score: dot"""

    def build(self, dim: int) -> Score:
        return Score()
