"""Small tasks whose answers are known: tokens are drawn, what is to be said follows from them.

A row is read by a language model; `asked` marks the places whose next token counts.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.lab.experiment import generator

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


def several(names: int, things: int, places: int, *chance: int, rows: int = ROWS) -> Rows:
    """A list of all names, each with a thing; some names; their things in that order, asked for.

    A named thing, a question and an answer are one symbol each; `several_symbols` in all.
    """
    drawing = generator(*chance)
    named = torch.rand(rows, names, generator=drawing).argsort(1)
    own = torch.randint(things, (rows, names), generator=drawing)
    at = torch.rand(rows, names, generator=drawing).argsort(1)[:, :places]
    question = names * things + _as_one(named.gather(1, at), names)
    answer = names * things + names**places + _as_one(own.gather(1, at), things)
    ids = torch.cat([named * things + own, question[:, None], answer[:, None]], dim=1)
    asked = torch.zeros(rows, names + 1, dtype=torch.bool)
    asked[:, -1] = True
    return Rows(ids, asked)


def several_symbols(names: int, things: int, places: int) -> int:
    return int(names * things + names**places + things**places)


def _as_one(digits: Tensor, base: int) -> Tensor:
    """Digits (B, N) as one number each, (B,)."""
    return (digits * base ** torch.arange(digits.size(1)).flip(0)).sum(1)


def loss(model: nn.Module, rows: Rows) -> Tensor:
    """The mean cross-entropy of what is asked for."""
    logits = model(rows.ids[:, :-1])[rows.asked]
    return nn.functional.cross_entropy(logits, rows.ids[:, 1:][rows.asked])


@torch.no_grad()
def accuracy(model: nn.Module, rows: Rows) -> float:
    """How much of what is asked for is the likeliest to be said."""
    said = model(rows.ids[:, :-1])[rows.asked].argmax(-1)
    return float((said == rows.ids[:, 1:][rows.asked]).float().mean())


class Labelled(NamedTuple):
    ids: Tensor  # (B, T)
    labels: Tensor  # (B,)


def which_first(length: int, symbols: int, *chance: int, rows: int = ROWS) -> Labelled:
    """After a mark (0), symbols of no account, and among them a 1 and a 2: is the 1 before the 2?

    Half of the rows are the other half with the 1 and the 2 exchanged: nothing but order tells.
    """
    drawn = generator(*chance)
    ids = torch.randint(3, symbols, (rows // 2, length), generator=drawn)
    ids[:, 0] = 0
    places = 1 + torch.rand(rows // 2, length - 1, generator=drawn).argsort(1)[:, :2]
    other = ids.clone()
    ids.scatter_(1, places, torch.tensor([[1, 2]]).expand(rows // 2, 2))
    other.scatter_(1, places, torch.tensor([[2, 1]]).expand(rows // 2, 2))
    first = (places[:, 0] < places[:, 1]).long()
    return Labelled(torch.cat([ids, other]), torch.cat([first, 1 - first]))
