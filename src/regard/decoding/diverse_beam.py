"""Beams in groups that avoid each other's words (Vijayakumar et al. 2018).

Groups choose one after the other at each step; a word costs `strength` for each time that an
earlier group has chosen it in this step. The cost decides what goes on, not how it is scored.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.beam import BeamStep, likeliest
from regard.errors import ConfigError


@dataclass(frozen=True)
class Diverse:
    groups: int
    strength: float = 0.5

    def __call__(self, at: BeamStep) -> tuple[Tensor, Tensor]:
        if at.width % self.groups:
            raise ConfigError(
                f"a beam {at.width} wide cannot be divided into {self.groups} groups: "
                f"choose a width that can."
            )
        share, (rows, beginnings, vocabulary) = at.width // self.groups, at.after.shape
        cost = at.after.new_zeros(rows, vocabulary)
        values, places = [], []
        for group in range(self.groups):
            # In the first step there is one beginning, which all groups share.
            own = slice(group * share, (group + 1) * share) if beginnings > 1 else slice(0, 1)
            after = at.after[:, own]
            chosen = likeliest(at._replace(after=after - cost[:, None], width=share))[1]
            words = chosen % vocabulary
            cost.scatter_add_(1, words, torch.full_like(words, self.strength, dtype=cost.dtype))
            values.append(after.flatten(1).gather(1, chosen))
            places.append(chosen + own.start * vocabulary)
        return torch.cat(values, 1), torch.cat(places, 1)
