"""Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000).

    i = σ(W_i x + U_i h)          input gate
    f = σ(W_f x + U_f h)          forget gate
    g = tanh(W_g x + U_g h)       candidate
    o = σ(W_o x + U_o h)          output gate
    c = f ∗ c + i ∗ g
    h = o ∗ tanh(c)

with one bias each. The state is h and c, concatenated. The bias of the forget gate starts at 1
(Jozefowicz et al. 2015), so that the cell keeps its memory at first and gradients reach far back.
"""

from typing import ClassVar

import torch
from torch import Tensor

from regard.layers.recurrent.base import Cell, CellSpec


class LSTM(Cell):
    gates: ClassVar[int] = 4
    state_vectors: ClassVar[int] = 2

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim, state_bias=False)

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (projected + self.w_h(h)).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return torch.cat([o.sigmoid() * c.tanh(), c], dim=-1)

    @torch.no_grad()
    def initialize(self) -> None:
        super().initialize()
        self.w_x.bias[self.dim : 2 * self.dim] = 1


class Spec(CellSpec):
    """cell: lstm"""

    def build(self, inputs: int, dim: int) -> LSTM:
        return LSTM(inputs, dim)
