"""No attention: one fixed vector encodes the source (Cho et al. 2014; Sutskever et al. 2014).

The context of every token is the same, the last state of the encoder.
"""

from regard.attention.scores.base import ScoreSpec


class Spec(ScoreSpec):
    """score: none"""

    def build(self, dim: int) -> None:
        return None
