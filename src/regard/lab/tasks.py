"""Small tasks whose answers are known: tokens are drawn, what is to be said follows from them.

A row is read by a language model; `asked` marks the places whose next token counts.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.lab.bench import generator

ROWS = 32


class Rows(NamedTuple):
    ids: Tensor  # (B, T)
    asked: Tensor  # (B, T − 1): is the token after this place to be said?


def reverse(length: int, symbols: int, *chance: int, rows: int = ROWS) -> Rows:
    """Symbols, a mark (0), and the same symbols backwards, which are asked for."""
    drawn = torch.randint(1, symbols, (rows, length), generator=generator(*chance))
    ids = torch.cat([drawn, torch.zeros(rows, 1, dtype=torch.long), drawn.flip(1)], dim=1)
    asked = torch.zeros(rows, 2 * length, dtype=torch.bool)
    asked[:, length:] = True
    return Rows(ids, asked)


def recall(distance: int, symbols: int, *chance: int, rows: int = ROWS) -> Rows:
    """A symbol (2 … symbols + 1), silence (1), a mark (0) at the distance from the symbol, and the
    symbol again, which is asked for."""
    symbol = torch.randint(2, symbols + 2, (rows, 1), generator=generator(*chance))
    silence = torch.ones(rows, distance - 1, dtype=torch.long)
    ids = torch.cat([symbol, silence, torch.zeros(rows, 1, dtype=torch.long), symbol], dim=1)
    asked = torch.zeros(rows, distance + 1, dtype=torch.bool)
    asked[:, -1] = True
    return Rows(ids, asked)


def loss(model: nn.Module, rows: Rows) -> Tensor:
    """The mean cross-entropy of what is asked for."""
    logits = model(rows.ids[:, :-1])[rows.asked]
    return nn.functional.cross_entropy(logits, rows.ids[:, 1:][rows.asked])


@torch.no_grad()
def accuracy(model: nn.Module, rows: Rows) -> float:
    """How much of what is asked for is the likeliest to be said."""
    said = model(rows.ids[:, :-1])[rows.asked].argmax(-1)
    return float((said == rows.ids[:, 1:][rows.asked]).float().mean())
