"""Residual wiring around a sublayer f, with the norm before it or after.

    first:  x + dropout(f(norm(x)))        trains without warm-up; the residual path is an identity
    last:   norm(x + dropout(f(x)))        as in the paper (Vaswani et al. 2017, section 5.4)

The gradient through the sum is 1 plus what comes through f, so depth does not starve it. Split in
two halves, `enter` and `leave`, so that a sublayer may take and return state between them.
"""

from torch import Tensor, nn

from regard.layers.dropout import Dropout


class Residual(nn.Module):
    def __init__(self, norm: nn.Module, norm_first: bool, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the sublayer is given."""
        entering: Tensor = self.norm(x) if self.norm_first else x
        return entering

    def leave(self, x: Tensor, answer: Tensor) -> Tensor:
        """What goes on, given the sublayer's answer."""
        total: Tensor = x + self.dropout(answer)
        leaving: Tensor = total if self.norm_first else self.norm(total)
        return leaving
