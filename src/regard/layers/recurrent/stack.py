"""The blocks of recurrent models: a cell that reads on, two that read both ways, one that looks.

What a block says is of the size of what it is given, D, so that deep stacks can add it to that.
"""

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.recurrent import RecurrentCrossAttention
from regard.layers.recurrent.base import Cell


class ForwardBlock(nn.Module):
    """Reads from left to right."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(
        self, x: Tensor, state: Tensor | None = None, begins: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """What is said after each of x (B, T, D), and the states (B, T, N) it is a part of."""
        states = self.cell.run(x, state, begins)
        return self.cell.said(states), states


class BothWaysBlock(nn.Module):
    """Reads from both ends, so that each word's state knows all (Schuster and Paliwal 1997).

    a_j = W [→h_j; ←h_j]
    """

    def __init__(self, ahead: Cell, back: Cell) -> None:
        super().__init__()
        self.ahead = ahead
        self.back = back
        self.join = nn.Linear(ahead.dim + back.dim, ahead.dim)

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States (B, T, D) of x (B, T, D), and one (B, D) of both ends: of where each cell ended.

        Rows are padded on the right: no real word comes after padding, read either way.
        """
        lengths = _lengths(x, token_mask)
        ahead = self.ahead.said(self.ahead.run(x))
        back = _turned(self.back.said(self.back.run(_turned(x, lengths))), lengths)
        rows = torch.arange(len(x), device=x.device)
        ends = torch.cat([ahead[rows, lengths - 1], back[:, 0]], dim=-1)
        return self.join(torch.cat([ahead, back], dim=-1)), self.join(ends)


def _lengths(x: Tensor, token_mask: Tensor | None) -> Tensor:
    if token_mask is None:
        return torch.full((len(x),), x.size(1), device=x.device)
    return token_mask.sum(1)


def _turned(x: Tensor, lengths: Tensor) -> Tensor:
    """The real words of each row of x (B, T, D) the other way round; padding stays behind them."""
    places = torch.arange(x.size(1), device=x.device)
    mirrored = lengths[:, None] - 1 - places
    source = torch.where(mirrored >= 0, mirrored, places)
    return x.gather(1, source[:, :, None].expand_as(x))


class LookingBlock(nn.Module):
    """One step of a decoder that looks at a source first (Bahdanau et al. 2015).

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
        given: Tensor,
        state: Tensor,
        summary: Tensor,
        source: KVCache | None,
        mask: AttentionMask,
    ) -> tuple[Tensor, Tensor]:
        """The next state (B, N) and the context (B, D); `given` (B, gates · D) is W_y y."""
        context = summary
        if self.cross is not None:
            context = self.cross(self.cell.said(state)[:, None], source, mask)[:, 0]
        return self.cell(given + self.w_c(context), state), context
