"""Log-likelihood of given outputs: log p of each token, given those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.batches.padding import pad_rows
from regard.decoding.stepper import Prefills, R
from regard.engine.numerics import Ids, log_softmax


@dataclass(frozen=True)
class Score:
    """Log-likelihood of one text under a model."""

    token_log_probs: tuple[float, ...]  # of each token, the end token included

    @property
    def total(self) -> float:
        """Log-probability of the text."""
        return sum(self.token_log_probs)

    @property
    def mean(self) -> float:
        """Log-probability per token: comparable between texts of different lengths."""
        return self.total / len(self.token_log_probs)

    @property
    def perplexity(self) -> float:
        """exp(−mean)."""
        with np.errstate(over="ignore"):
            return float(np.exp(-self.mean))


def score(
    model: Prefills[R], state: R, first: Ids, end: int, targets: Sequence[Sequence[int]]
) -> list[Score]:
    """Score the target ids of each row after its first id (B,), and the end token after them."""
    labels, token_mask = pad_rows([[*ids, end] for ids in targets], end)
    inputs = np.concatenate([first[:, None], labels[:, :-1]], axis=1)
    logits, _ = model.extend(inputs, state)
    log_p = np.take_along_axis(log_softmax(logits), labels[:, :, None], 2)[:, :, 0]
    return [Score(tuple(row[mask].tolist())) for row, mask in zip(log_p, token_mask, strict=True)]
