"""Diverse beam search: groups of a beam avoid each other's tokens (Vijayakumar et al. 2018).

Groups choose one after the other at each step. A token costs `strength` for each time that an
earlier group chose it in this step. The cost affects the choice, not the score. Two groups may
generate the same output, which is returned once.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.decoding.beam import BeamStep, top_candidates
from regard.engine.numerics import Ids, Scores
from regard.errors import ConfigError


@dataclass(frozen=True)
class DiverseBeam:
    """Select candidates in `groups` of equal size."""

    groups: int
    strength: float = 0.5

    def __call__(self, step: BeamStep) -> tuple[Scores, Ids]:
        if step.width % self.groups:
            raise ConfigError(
                f"a beam of {step.width} cannot be divided into {self.groups} groups: "
                f"choose a width that is a multiple."
            )
        size, (rows, hypotheses, vocabulary) = step.width // self.groups, step.log_p.shape
        cost = np.zeros((rows, vocabulary), step.log_p.dtype)
        values, indices = [], []
        for group in range(self.groups):
            # At the first step there is one hypothesis, which all groups share.
            own = slice(group * size, (group + 1) * size) if hypotheses > 1 else slice(0, 1)
            log_p = step.log_p[:, own]
            selected = top_candidates(step._replace(log_p=log_p - cost[:, None], width=size))[1]
            tokens = selected % vocabulary
            np.add.at(cost, (np.arange(rows)[:, None], tokens), self.strength)
            own_values = np.take_along_axis(log_p.reshape(rows, -1), selected, 1)
            values.append(_padded(own_values, size, -math.inf))
            indices.append(_padded(selected + own.start * vocabulary, size, 0))
        return np.concatenate(values, 1), np.concatenate(indices, 1)


def _padded(columns: NDArray[Any], size: int, value: float) -> NDArray[Any]:
    """Return columns (R, n) extended to (R, size): a group keeps its place if it has fewer."""
    missing = size - columns.shape[1]
    return np.pad(columns, ((0, 0), (0, missing)), constant_values=value)
