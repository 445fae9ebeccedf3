"""Diverse beam search: groups of a beam avoid each other's tokens (Vijayakumar et al. 2018).

Groups choose one after the other at each step. A token costs `strength` for each time that an
earlier group chose it in this step. The cost affects the choice, not the score. Two groups may
generate the same output, which is returned once.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.beam import BeamStep, top_candidates
from regard.errors import ConfigError


@dataclass(frozen=True)
class DiverseBeam:
    """Select candidates in `groups` of equal size."""

    groups: int
    strength: float = 0.5

    def __call__(self, step: BeamStep) -> tuple[Tensor, Tensor]:
        if step.width % self.groups:
            raise ConfigError(
                f"a beam of {step.width} cannot be divided into {self.groups} groups: "
                f"choose a width that is a multiple."
            )
        size, (rows, hypotheses, vocabulary) = step.width // self.groups, step.log_p.shape
        cost = step.log_p.new_zeros(rows, vocabulary)
        values, indices = [], []
        for group in range(self.groups):
            # At the first step there is one hypothesis, which all groups share.
            own = slice(group * size, (group + 1) * size) if hypotheses > 1 else slice(0, 1)
            log_p = step.log_p[:, own]
            selected = top_candidates(step._replace(log_p=log_p - cost[:, None], width=size))[1]
            tokens = selected % vocabulary
            cost.scatter_add_(1, tokens, torch.full_like(tokens, self.strength, dtype=cost.dtype))
            values.append(_padded(log_p.flatten(1).gather(1, selected), size, -math.inf))
            indices.append(_padded(selected + own.start * vocabulary, size, 0))
        return torch.cat(values, 1), torch.cat(indices, 1)


def _padded(columns: Tensor, size: int, value: float) -> Tensor:
    """Return columns (R, n) extended to (R, size): a group keeps its place if it has fewer."""
    return torch.nn.functional.pad(columns, (0, size - columns.size(1)), value=value)
