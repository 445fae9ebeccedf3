"""No attention: one hidden state carries all (Cho et al. 2014; Sutskever et al. 2014).

The context of every word is the same, what the encoder ended with.
"""

from regard.attention.scores.base import ScoreSpec


class Spec(ScoreSpec):
    """score: none"""

    def build(self, dim: int) -> None:
        return None
