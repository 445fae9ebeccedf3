"""Small synthetic tasks with known answers, on random tokens.

A language model reads a row; `is_target` marks the positions whose next token is the answer.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.lab.experiment import generator

ROWS = 32


class Rows(NamedTuple):
    ids: Tensor  # (B, T)
    is_target: Tensor  # (B, T − 1): True where the next token is part of the answer


def reverse(length: int, symbols: int, *chance: int, rows: int = ROWS) -> Rows:
    """Generate symbols, a separator (0), and the same symbols reversed as the answer."""
    drawn = torch.randint(1, symbols, (rows, length), generator=generator(*chance))
    ids = torch.cat([drawn, torch.zeros(rows, 1, dtype=torch.long), drawn.flip(1)], dim=1)
    is_target = torch.zeros(rows, 2 * length, dtype=torch.bool)
    is_target[:, length:] = True
    return Rows(ids, is_target)


def recall(distance: int, symbols: int, *chance: int, rows: int = ROWS) -> Rows:
    """Generate a symbol (2 … symbols + 1), blanks (1), a cue (0) at a distance, and the answer.

    The answer is the symbol again.
    """
    symbol = torch.randint(2, symbols + 2, (rows, 1), generator=generator(*chance))
    blanks = torch.ones(rows, distance - 1, dtype=torch.long)
    ids = torch.cat([symbol, blanks, torch.zeros(rows, 1, dtype=torch.long), symbol], dim=1)
    is_target = torch.zeros(rows, distance + 1, dtype=torch.bool)
    is_target[:, -1] = True
    return Rows(ids, is_target)


def several(names: int, things: int, places: int, *chance: int, rows: int = ROWS) -> Rows:
    """Generate key-value pairs, some of the keys, and their values in that order as the answer.

    A pair, a question and an answer are one symbol each, out of `several_symbols`.
    """
    drawing = generator(*chance)
    named = torch.rand(rows, names, generator=drawing).argsort(1)
    own = torch.randint(things, (rows, names), generator=drawing)
    at = torch.rand(rows, names, generator=drawing).argsort(1)[:, :places]
    question = names * things + _as_one(named.gather(1, at), names)
    answer = names * things + names**places + _as_one(own.gather(1, at), things)
    ids = torch.cat([named * things + own, question[:, None], answer[:, None]], dim=1)
    is_target = torch.zeros(rows, names + 1, dtype=torch.bool)
    is_target[:, -1] = True
    return Rows(ids, is_target)


def several_symbols(names: int, things: int, places: int) -> int:
    return int(names * things + names**places + things**places)


def _as_one(digits: Tensor, base: int) -> Tensor:
    """Return digits (B, N) as one number each, (B,)."""
    return (digits * base ** torch.arange(digits.size(1)).flip(0)).sum(1)


def loss(model: nn.Module, rows: Rows) -> Tensor:
    """Return the mean cross-entropy of the answers."""
    logits = model(rows.ids[:, :-1])[rows.is_target]
    return nn.functional.cross_entropy(logits, rows.ids[:, 1:][rows.is_target])


@torch.no_grad()
def accuracy(model: nn.Module, rows: Rows) -> float:
    """Return the share of answer tokens that are predicted correctly."""
    predicted = model(rows.ids[:, :-1])[rows.is_target].argmax(-1)
    return float((predicted == rows.ids[:, 1:][rows.is_target]).float().mean())


class LabeledRows(NamedTuple):
    ids: Tensor  # (B, T)
    labels: Tensor  # (B,)


def which_first(length: int, symbols: int, *chance: int, rows: int = ROWS) -> LabeledRows:
    """Generate a start symbol (0) and random symbols with a 1 and a 2; label: is the 1 first?

    Half of the rows are the other half with 1 and 2 exchanged: only their order decides.
    """
    drawn = generator(*chance)
    ids = torch.randint(3, symbols, (rows // 2, length), generator=drawn)
    ids[:, 0] = 0
    places = 1 + torch.rand(rows // 2, length - 1, generator=drawn).argsort(1)[:, :2]
    other = ids.clone()
    ids.scatter_(1, places, torch.tensor([[1, 2]]).expand(rows // 2, 2))
    other.scatter_(1, places, torch.tensor([[2, 1]]).expand(rows // 2, 2))
    first = (places[:, 0] < places[:, 1]).long()
    return LabeledRows(torch.cat([ids, other]), torch.cat([first, 1 - first]))
