"""Long short-term memory (Hochreiter and Schmidhuber 1997; the forget gate is Gers et al. 2000's).

    i = σ(W_i x + U_i h)          what is written
    f = σ(W_f x + U_f h)          what is kept
    g = tanh(W_g x + U_g h)       the new thought
    o = σ(W_o x + U_o h)          what is said
    c = f ∗ c + i ∗ g
    h = o ∗ tanh(c)

with one bias each. The state is h and c beside each other. The forget gate begins open, its bias at
1 (Jozefowicz et al. 2015): what is never kept cannot be learned to be kept.
"""

from typing import ClassVar

import torch
from torch import Tensor

from regard.layers.recurrent.base import Cell, CellSpec


class LSTM(Cell):
    gates: ClassVar[int] = 4
    keeps: ClassVar[int] = 2

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim, state_bias=False)

    def forward(self, given: Tensor, state: Tensor) -> Tensor:
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (given + self.w_h(h)).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return torch.cat([o.sigmoid() * c.tanh(), c], dim=-1)

    @torch.no_grad()
    def initialise(self) -> None:
        super().initialise()
        self.w_x.bias[self.dim : 2 * self.dim] = 1


class Spec(CellSpec):
    """cell: lstm"""

    def build(self, inputs: int, dim: int) -> LSTM:
        return LSTM(inputs, dim)
