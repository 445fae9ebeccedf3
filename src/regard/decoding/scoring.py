"""Log-likelihood of given outputs: log p of each token, given those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batches.base import pad
from regard.decoding.stepper import Prefills, R


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
        return float(torch.tensor(-self.mean, dtype=torch.float64).exp())


@torch.inference_mode()
def score(
    model: Prefills[R], state: R, first: Tensor, end: int, targets: Sequence[Sequence[int]]
) -> list[Score]:
    """Score the target ids of each row after its first id (B,), and the end token after them."""
    labels, token_mask = pad([[*ids, end] for ids in targets], end)
    labels, token_mask = labels.to(first.device), token_mask.to(first.device)
    inputs = torch.cat([first[:, None], labels[:, :-1]], dim=1)
    logits, _ = model.extend(inputs, state)
    log_p = logits.float().log_softmax(-1).gather(2, labels[:, :, None])[:, :, 0].double()
    return [Score(tuple(row[mask].tolist())) for row, mask in zip(log_p, token_mask, strict=True)]
