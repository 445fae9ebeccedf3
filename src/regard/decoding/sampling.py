"""Sampling: each word is drawn from the model's distribution, or from the better part of it.

    p ∝ exp(z / temperature), then in this order
    top_k    the k likeliest words                                        (Fan et al. 2018)
    top_p    the fewest likeliest words that have p together              (Holtzman et al. 2020)
    min_p    words at least min_p times as likely as the likeliest        (Nguyen et al. 2024)

Chance is a function of the seed, the row's number and the step: a row is continued the same way
alone and in any batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import ConfigError


@dataclass(frozen=True)
class Sampling:
    temperature: float = 1.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, fine, wanted in (
            ("temperature", self.temperature > 0, "more than 0"),
            ("top_k", self.top_k >= 0, "0 (all) or more"),
            ("top_p", 0 < self.top_p <= 1, "more than 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
            ("seed", self.seed >= 0, "0 or more"),
        ):
            if not fine:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be {wanted}.")

    def distribution(self, logits: Tensor) -> Tensor:
        """Probabilities (R, V) that words are drawn from, given logits (R, V)."""
        logits = logits / self.temperature
        if 0 < self.top_k < logits.size(-1):
            least = logits.topk(self.top_k).values[:, -1:]
            logits = logits.masked_fill(logits < least, -math.inf)
        p = logits.softmax(-1)
        if self.top_p < 1:
            p = _renormalised(p, _nucleus(p, self.top_p))
        if self.min_p > 0:
            p = _renormalised(p, p >= self.min_p * p.amax(-1, keepdim=True))
        return p

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int | Sequence[int]) -> Tensor:
        """A word for each row (R,): each row's, or everyone's, so manyeth."""
        steps = [step] * len(rows) if isinstance(step, int) else step
        p = self.distribution(logits.double())
        chances = [self.chance(row, own) for row, own in zip(rows, steps, strict=True)]
        return draw(p, torch.tensor(chances, dtype=torch.float64, device=p.device))

    def chance(self, row: int, step: int, purpose: int = 0) -> float:
        """A number from [0, 1) that belongs to this row and step."""
        key = np.random.SeedSequence((self.seed, row)).generate_state(2, np.uint64)
        return float(
            np.random.Generator(np.random.Philox(key=key, counter=[step, purpose, 0, 0])).random()
        )


def draw(p: Tensor, chances: Tensor) -> Tensor:
    """The word at which the cumulated probabilities (R, V) pass each row's chance (R,)."""
    cumulated = p.cumsum(-1)
    places = torch.searchsorted(cumulated, (chances * cumulated[:, -1])[:, None], right=True)
    last = (p > 0).long().cumsum(-1).argmax(-1)  # rounding must not reach past the last word
    return torch.minimum(places[:, 0], last)


def _nucleus(p: Tensor, mass: float) -> Tensor:
    """True for the fewest likeliest words whose probabilities come to at least `mass`."""
    ordered, order = p.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(p, dtype=torch.bool).scatter(-1, order, before < mass)


def _renormalised(p: Tensor, kept: Tensor) -> Tensor:
    p = p.where(kept, 0)
    return p / p.sum(-1, keepdim=True)
