"""How good guesses are: loss without smoothing, how often the likeliest is right, perplexity."""

import torch.nn.functional as F
from torch import Tensor

from regard.evaluation.tokens import TokenCounts


class TokenMetrics:
    """A tally of what was guessed so far."""

    def __init__(self) -> None:
        self.total, self.right, self.count = 0.0, 0, 0

    def add(self, logits: Tensor, words: Tensor) -> None:
        """Logits (N, V) of what turned out to be words (N,)."""
        self.total += float(F.cross_entropy(logits.float(), words, reduction="sum"))
        self.right += int((logits.argmax(-1) == words).sum())
        self.count += len(words)

    def scores(self) -> dict[str, float]:
        return TokenCounts(self.total, self.right, self.count).scores()
