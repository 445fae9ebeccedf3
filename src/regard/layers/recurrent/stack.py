"""Blocks of recurrent models: left to right, bidirectional, and with attention to a source.

The output of a block has the size of its input, D, so that deep stacks can use residual sums.
"""

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.recurrent import RecurrentCrossAttention
from regard.layers.recurrent.base import Cell


class ForwardBlock(nn.Module):
    """A cell that runs from left to right."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(
        self, x: Tensor, state: Tensor | None = None, resets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs (B, T, D) and the states (B, T, N) after each token of x (B, T, D)."""
        states = self.cell.run(x, state, resets)
        return self.cell.output(states), states


class BidirectionalBlock(nn.Module):
    """Two cells, one in each direction: each output depends on all tokens (Schuster and Paliwal
    1997).

    a_j = W [→h_j; ←h_j]
    """

    def __init__(self, forward_cell: Cell, backward_cell: Cell) -> None:
        super().__init__()
        self.forward_cell = forward_cell
        self.backward_cell = backward_cell
        self.proj = nn.Linear(forward_cell.dim + backward_cell.dim, forward_cell.dim)

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs (B, T, D) for x (B, T, D), and one (B, D) from both final states.

        Rows are padded on the right: in both directions no real token comes after padding.
        """
        lengths = _lengths(x, token_mask)
        ahead = self.forward_cell.output(self.forward_cell.run(x))
        reversed_x = _reversed(x, lengths)
        back = _reversed(self.backward_cell.output(self.backward_cell.run(reversed_x)), lengths)
        rows = torch.arange(len(x), device=x.device)
        ends = torch.cat([ahead[rows, lengths - 1], back[:, 0]], dim=-1)
        return self.proj(torch.cat([ahead, back], dim=-1)), self.proj(ends)


def _lengths(x: Tensor, token_mask: Tensor | None) -> Tensor:
    if token_mask is None:
        return torch.full((len(x),), x.size(1), device=x.device)
    return token_mask.sum(1)


def _reversed(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the real tokens of each row of x (B, T, D); padding stays behind them."""
    positions = torch.arange(x.size(1), device=x.device)
    mirrored = lengths[:, None] - 1 - positions
    source = torch.where(mirrored >= 0, mirrored, positions)
    return x.gather(1, source[:, :, None].expand_as(x))


class RecurrentAttentionBlock(nn.Module):
    """One step of a decoder that attends to a source before the cell (Bahdanau et al. 2015).

    c_t = attention(s_{t−1}, a),   s_t = cell([y_{t−1}; c_t], s_{t−1})

    Without attention the context is the same at each step.
    """

    def __init__(self, cell: Cell, cross: RecurrentCrossAttention | None) -> None:
        super().__init__()
        self.cell = cell
        self.cross = cross
        self.w_c = nn.Linear(
            cell.dim, cell.gates * cell.dim, bias=False
        )  # W [y; c] = W_y y + W_c c

    def forward(
        self,
        projected: Tensor,
        state: Tensor,
        summary: Tensor,
        source: KVCache | None,
        mask: AttentionMask,
    ) -> tuple[Tensor, Tensor]:
        """Return the next state (B, N) and the context (B, D).

        Args:
            projected: W_y y of the last token (B, gates · D).
            state: The last state (B, N).
            summary: Final state of the encoder (B, D), the context without attention.
            source: Keys and values of the source; None without attention.
            mask: The mask of the source.
        """
        context = summary
        if self.cross is not None:
            context = self.cross(self.cell.output(state)[:, None], source, mask)[:, 0]
        return self.cell(projected + self.w_c(context), state), context
