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


def reverse(length: int, symbols: int, *seed: int, rows: int = ROWS) -> Rows:
    """Generate symbols, a separator (0), and the same symbols reversed as the answer."""
    symbol_rows = torch.randint(1, symbols, (rows, length), generator=generator(*seed))
    ids = torch.cat(
        [symbol_rows, torch.zeros(rows, 1, dtype=torch.long), symbol_rows.flip(1)], dim=1
    )
    is_target = torch.zeros(rows, 2 * length, dtype=torch.bool)
    is_target[:, length:] = True
    return Rows(ids, is_target)


def recall(distance: int, symbols: int, *seed: int, rows: int = ROWS) -> Rows:
    """Generate a symbol (2 … symbols + 1), blanks (1), a cue (0) at a distance, and the answer.

    The answer is the symbol again.
    """
    symbol = torch.randint(2, symbols + 2, (rows, 1), generator=generator(*seed))
    blanks = torch.ones(rows, distance - 1, dtype=torch.long)
    ids = torch.cat([symbol, blanks, torch.zeros(rows, 1, dtype=torch.long), symbol], dim=1)
    is_target = torch.zeros(rows, distance + 1, dtype=torch.bool)
    is_target[:, -1] = True
    return Rows(ids, is_target)


def multi_query_recall(keys: int, values: int, queries: int, *seed: int, rows: int = ROWS) -> Rows:
    """Generate key-value pairs, some of the keys as queries, and their values in that order.

    A pair, all queries and all answers are one symbol each, out of `multi_query_vocabulary`.
    """
    rng = generator(*seed)
    key = torch.rand(rows, keys, generator=rng).argsort(1)
    value = torch.randint(values, (rows, keys), generator=rng)
    positions = torch.rand(rows, keys, generator=rng).argsort(1)[:, :queries]
    question = keys * values + _as_one(key.gather(1, positions), keys)
    answer = keys * values + keys**queries + _as_one(value.gather(1, positions), values)
    ids = torch.cat([key * values + value, question[:, None], answer[:, None]], dim=1)
    is_target = torch.zeros(rows, keys + 1, dtype=torch.bool)
    is_target[:, -1] = True
    return Rows(ids, is_target)


def multi_query_vocabulary(keys: int, values: int, queries: int) -> int:
    return int(keys * values + keys**queries + values**queries)


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


def which_first(length: int, symbols: int, *seed: int, rows: int = ROWS) -> LabeledRows:
    """Generate a start symbol (0) and random symbols with a 1 and a 2; label: is the 1 first?

    Half of the rows are the other half with 1 and 2 exchanged: only their order decides.
    """
    rng = generator(*seed)
    ids = torch.randint(3, symbols, (rows // 2, length), generator=rng)
    ids[:, 0] = 0
    positions = 1 + torch.rand(rows // 2, length - 1, generator=rng).argsort(1)[:, :2]
    other = ids.clone()
    ids.scatter_(1, positions, torch.tensor([[1, 2]]).expand(rows // 2, 2))
    other.scatter_(1, positions, torch.tensor([[2, 1]]).expand(rows // 2, 2))
    first = (positions[:, 0] < positions[:, 1]).long()
    return LabeledRows(torch.cat([ids, other]), torch.cat([first, 1 - first]))
