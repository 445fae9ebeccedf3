"""Presence and frequency penalties: tokens that were generated become less likely.

    z_j − frequency · count_j − presence · (1 if count_j > 0 else 0)

count_j is the number of times that token j was generated; the prompt does not count, unlike in the
repetition penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.decoding.logits_processors import Context
from regard.engine.numerics import Scores


@dataclass(frozen=True)
class CountPenalty:
    """Subtract from the logits of generated tokens; negative penalties make them more likely."""

    presence: float
    frequency: float
    prompt: int  # number of its tokens

    def __call__(self, scores: Scores, context: Context, rows: Sequence[int]) -> Scores:
        for row, ids in zip(scores, context, strict=True):
            generated, counts = np.unique(ids[self.prompt :], return_counts=True)
            if generated.size:
                row[generated] -= self.presence + self.frequency * counts
        return scores
