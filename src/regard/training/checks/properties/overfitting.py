"""The model can overfit a few examples: one that cannot memorize will not generalize.

The optimizer is the recipe's, with its warmup and no decay. A low learning rate is raised, because
in so few updates it would show nothing.
"""

import math
from collections import Counter
from typing import ClassVar

from regard.data.batches.base import Batch
from regard.data.batches.text import DocumentMaskedBatch
from regard.training.checks.properties.base import Check, Property
from regard.training.checks.setup import CheckContext
from regard.training.learner import Learner
from regard.training.optim.schedules import constant

EXAMPLES = 8
MAX_UPDATES = 200
MAX_LOSS = 0.1  # nats a prediction
MIN_LEARNING_RATE = 1e-3


class Spec(Property):
    order: ClassVar[int] = 9

    def check(self, context: CheckContext) -> Check:
        name = f"the model overfits {EXAMPLES} examples"
        if not context.task.model().can_overfit:
            reason = "this kind of model cannot, and need not"
            return Check(name, "", None, MAX_LOSS, "", reason)
        rate = max(context.training.optimizer.rate(), MIN_LEARNING_RATE)
        batch = context.batch(context.examples[:: len(context.examples) // EXAMPLES])
        entropy = _entropy(batch)
        updates, loss = _fit(_learner(context, rate), batch, entropy)
        above = f" above the {entropy:.2g} that cannot be predicted" if entropy else ""
        frozen = "much of it is frozen: freeze less; or " if context.frozen else ""
        return Check(
            name,
            f"loss per prediction{above} after {updates} updates, learning rate {rate:g}",
            loss,
            MAX_LOSS,
            f"the model does not learn: {frozen}lower training.optimizer.learning_rate (it is "
            f"{context.training.optimizer.rate():g}) or raise training.schedule.warmup; a deep "
            f"model may need model.norm_first=true.",
        )


def _learner(context: CheckContext, rate: float) -> Learner:
    spec = context.training
    return context.learner(
        spec.model_copy(
            update={
                "optimizer": spec.optimizer.model_copy(update={"learning_rate": rate}),
                "schedule": constant.Spec(warmup=min(spec.schedule.warmup, MAX_UPDATES)),
            }
        )
    )


def _fit(learner: Learner, batch: Batch, entropy: float) -> tuple[int, float]:
    """Train on one batch; return the number of updates and the loss above the entropy."""
    updates, loss = 0, math.inf
    while updates < MAX_UPDATES and loss > MAX_LOSS:
        updates += 1
        loss = learner.update([batch], updates, progress=0.0).loss - entropy
    return updates, loss


def _entropy(batch: Batch) -> float:
    """Return the nats a prediction that not even memorizing can remove.

    Documents that begin alike may continue differently, and their prefix does not identify them.
    Examples of other kinds are identified by their source or their position.
    """
    if not isinstance(batch, DocumentMaskedBatch):
        return 0.0
    followers: dict[tuple[int, ...], Counter[int]] = {}
    columns = (batch.ids, batch.token_mask, batch.documents)
    for ids, token_mask, numbers in zip(*(c.tolist() for c in columns), strict=True):
        for position in range(1, sum(token_mask)):
            start = numbers.index(numbers[position - 1])
            prefix = tuple(ids[start:position])
            followers.setdefault(prefix, Counter())[ids[position]] += 1
    nats = sum(
        count * math.log(total / count)
        for counts in followers.values()
        if (total := counts.total()) > 1
        for count in counts.values()
    )
    return nats / batch.num_targets
