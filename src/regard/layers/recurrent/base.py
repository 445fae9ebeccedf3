"""One step through time, one file a kind: from a state and what is given now to the next state.

    s_t = cell(x_t, s_{t−1})

The products of all inputs with their weights need no earlier state, and are worked out for all
words at once; what is left in the loop over time is the product with the state. The state is one
tensor (B, N), whatever a kind keeps in it, and what a cell says is the first D numbers of it.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.config import Kind


class Cell(nn.Module):
    gates: ClassVar[int]  # vectors of size D that a step works out of the input and the state
    keeps: ClassVar[int]  # vectors of size D in its state

    def __init__(self, inputs: int, dim: int, state_bias: bool) -> None:
        super().__init__()
        self.dim = dim
        self.w_x = nn.Linear(inputs, self.gates * dim)
        self.w_h = nn.Linear(dim, self.gates * dim, bias=state_bias)

    def forward(self, given: Tensor, state: Tensor) -> Tensor:
        """The next state (B, N), from `given` (B, gates · D), which is W x + b, and the last."""
        raise NotImplementedError

    def run(self, x: Tensor, state: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        """The states (B, T, N) after each of x (B, T, inputs); zeros come first unless said.

        Where `begins` (B, T) is True, all before is forgotten.
        """
        state = self.nothing(x) if state is None else state
        kept = None if begins is None else (~begins).to(x.dtype).unsqueeze(-1).unbind(1)
        states = []
        for place, given in enumerate(self.w_x(x).unbind(1)):
            state = self(given, state if kept is None else state * kept[place])
            states.append(state)
        return torch.stack(states, dim=1)

    def said(self, states: Tensor) -> Tensor:
        """h, of size D: what others see of states (…, N)."""
        return states[..., : self.dim]

    def nothing(self, x: Tensor) -> Tensor:
        """The state before anything was read, for as many rows as x has."""
        return x.new_zeros(len(x), self.keeps * self.dim)

    @torch.no_grad()
    def initialise(self) -> None:
        """Orthogonal maps of the state keep its length over many steps; gates begin undecided."""
        for gate in self.w_h.weight.chunk(self.gates):
            nn.init.orthogonal_(gate)
        for gate in self.w_x.weight.chunk(self.gates):
            nn.init.xavier_uniform_(gate)
        for linear in (self.w_x, self.w_h):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)


class CellSpec(Kind, package="regard.layers.recurrent", default="gru"):
    """A kind of cell."""

    def build(self, inputs: int, dim: int) -> Cell:
        raise NotImplementedError
