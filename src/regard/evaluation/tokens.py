"""Metrics of predicted tokens: functions of their log probabilities and of the number of hits."""

from dataclasses import dataclass

from regard.evaluation.base import Metric, metrics_of


@dataclass(frozen=True)
class TokenCounts:
    """Counts of predicted tokens."""

    nats: float  # −Σ log p
    correct: int  # tokens that had the highest probability
    tokens: int

    @property
    def loss(self) -> float:
        return self.nats / self.tokens

    def scores(self) -> dict[str, float]:
        """Value of every token metric, by name."""
        return {metric.name: metric.of_tokens(self) for metric in metrics_of(TokenMetric)}


class TokenMetric(Metric):
    """A metric of predicted tokens."""

    def of_tokens(self, counts: TokenCounts) -> float:
        raise NotImplementedError


class LossMetric(TokenMetric):
    """A function of the mean cross-entropy of a token."""

    def of_loss(self, loss: float) -> float:
        raise NotImplementedError

    def of_tokens(self, counts: TokenCounts) -> float:
        return self.of_loss(counts.loss)


def loss_scores(loss: float) -> dict[str, float]:
    """Value of every loss metric, by name, given the mean cross-entropy of a token."""
    return {metric.name: metric.of_loss(loss) for metric in metrics_of(LossMetric)}
