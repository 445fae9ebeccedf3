"""The gated recurrent unit (Cho et al. 2014).

    r = σ(W_r x + U_r h)                  how much of the past the new thought hears of
    z = σ(W_z x + U_z h)                  how much of the past stays
    n = tanh(W_n x + r ∗ (U_n h))         the new thought
    h = (1 − z) ∗ n + z ∗ h

with a bias in each product. The reset gate stands after the product with the state, as in cuDNN and
torch, so that one matrix product serves all three.
"""

from typing import ClassVar

import torch
from torch import Tensor

from regard.layers.recurrent.base import Cell, CellSpec


class GRU(Cell):
    gates: ClassVar[int] = 3
    keeps: ClassVar[int] = 1

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim, state_bias=True)

    def forward(self, given: Tensor, state: Tensor) -> Tensor:
        sizes = [2 * self.dim, self.dim]
        gates_x, thought_x = torch.split(given, sizes, dim=-1)
        gates_h, thought_h = torch.split(self.w_h(state), sizes, dim=-1)
        r, z = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)
        n = torch.addcmul(thought_x, r, thought_h).tanh()
        return torch.lerp(n, state, z)


class Spec(CellSpec):
    """cell: gru"""

    def build(self, inputs: int, dim: int) -> GRU:
        return GRU(inputs, dim)
