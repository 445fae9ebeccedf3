"""Recurrent cells, one file a kind: one step from an input and a state to the next state.

    s_t = cell(x_t, s_{t−1})

The products of the inputs with their weights need no earlier state and are computed for all tokens
at once; the loop over time holds only the product with the state. The state is one tensor (B, N)
for every kind, and the first D numbers of it are the output of the cell.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.config import Kind


class Cell(nn.Module):
    gates: ClassVar[int]  # vectors of size D that a step computes from the input and the state
    state_vectors: ClassVar[int]  # vectors of size D in the state

    def __init__(self, inputs: int, dim: int, state_bias: bool) -> None:
        super().__init__()
        self.dim = dim
        self.w_x = nn.Linear(inputs, self.gates * dim)
        self.w_h = nn.Linear(dim, self.gates * dim, bias=state_bias)

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        """Return the next state (B, N), given W x + b (B, gates · D) and the last state (B, N)."""
        raise NotImplementedError

    def run(self, x: Tensor, state: Tensor | None = None, resets: Tensor | None = None) -> Tensor:
        """Return the states (B, T, N) after each token of x (B, T, inputs).

        Args:
            x: Inputs of the cell.
            state: State before the first token (default: zeros).
            resets: (B, T), True = the state before this token is set to zero (default: nowhere).
        """
        state = self.initial_state(x) if state is None else state
        keep = None if resets is None else (~resets).to(x.dtype).unsqueeze(-1).unbind(1)
        states = []
        for position, projected in enumerate(self.w_x(x).unbind(1)):
            state = self(projected, state if keep is None else state * keep[position])
            states.append(state)
        return torch.stack(states, dim=1)

    def output(self, states: Tensor) -> Tensor:
        """Return h (…, D), the output part of states (…, N)."""
        return states[..., : self.dim]

    def initial_state(self, x: Tensor) -> Tensor:
        """Return zeros (B, N) for as many rows as x has."""
        return x.new_zeros(len(x), self.state_vectors * self.dim)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw orthogonal state matrices, which keep the norm of the state over many steps."""
        for gate in self.w_h.weight.chunk(self.gates):
            nn.init.orthogonal_(gate)
        for gate in self.w_x.weight.chunk(self.gates):
            nn.init.xavier_uniform_(gate)
        for linear in (self.w_x, self.w_h):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)


class CellSpec(Kind, package="regard.layers.recurrent", default="gru"):
    """A kind of recurrent cell."""

    def build(self, inputs: int, dim: int) -> Cell:
        raise NotImplementedError
