"""The gated recurrent unit (Cho et al. 2014).

    r = σ(W_r x + U_r h)                  reset gate
    z = σ(W_z x + U_z h)                  update gate: the fraction of the old state that is kept
    n = tanh(W_n x + r ∗ (U_n h))         candidate state
    h = (1 − z) ∗ n + z ∗ h

with a bias in each product. The reset gate is applied after the product with the state, as in cuDNN
and torch, so that one matrix product serves all three.
"""

from typing import ClassVar

import torch
from torch import Tensor

from regard.layers.recurrent.base import Cell, CellSpec


class GRU(Cell):
    gates: ClassVar[int] = 3
    state_vectors: ClassVar[int] = 1

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim, state_bias=True)

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        sizes = [2 * self.dim, self.dim]
        gates_x, candidate_x = torch.split(projected, sizes, dim=-1)
        gates_h, candidate_h = torch.split(self.w_h(state), sizes, dim=-1)
        r, z = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)
        n = torch.addcmul(candidate_x, r, candidate_h).tanh()
        return torch.lerp(n.to(state.dtype), state, z.to(state.dtype))  # under autocast they differ


class Spec(CellSpec):
    """cell: gru"""

    def build(self, inputs: int, dim: int) -> GRU:
        return GRU(inputs, dim)
