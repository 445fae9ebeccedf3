"""The general score (Luong et al. 2015): a dot product in a learned space.

e = s · W a
"""

from torch import Tensor, nn

from regard.attention.scores.base import Score, ScoreSpec


class General(Score):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.w_k = nn.Linear(dim, dim, bias=False)

    def keys(self, a: Tensor) -> Tensor:
        keys: Tensor = self.w_k(a)
        return keys


class Spec(ScoreSpec):
    """score: general"""

    def build(self, dim: int) -> General:
        return General(dim)
