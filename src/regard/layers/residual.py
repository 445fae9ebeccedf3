"""Residual connection around a sublayer f, with the norm before or after it.

    norm first:  x + dropout(f(norm(x)))   trains without warm-up; the residual path is an identity
    norm last:   norm(x + dropout(f(x)))   as in the paper (Vaswani et al. 2017, section 5.4)

The gradient through the sum is 1 plus the gradient through f, so it does not vanish with depth. The
connection is split into two methods, so that a sublayer can take and return state between them.
"""

from torch import Tensor, nn

from regard.layers.dropout import Dropout


class Residual(nn.Module):
    def __init__(self, norm: nn.Module, norm_first: bool, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)

    def sublayer_input(self, x: Tensor) -> Tensor:
        """Return the input of the sublayer: norm(x) with norms first, otherwise x."""
        normed: Tensor = self.norm(x) if self.norm_first else x
        return normed

    def add(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Return the residual stream with the output of the sublayer added."""
        total: Tensor = x + self.dropout(sublayer_output)
        stream: Tensor = total if self.norm_first else self.norm(total)
        return stream
