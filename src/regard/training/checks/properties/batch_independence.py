"""The output of an example does not depend on padding or on the other examples of its batch."""

from typing import ClassVar

import torch

from regard.training.checks.properties.base import (
    BATCH_SIZE,
    ROUNDING,
    Check,
    Property,
    relative_size,
    worst,
)
from regard.training.checks.setup import CheckContext, model_inputs


class Spec(Property):
    order: ClassVar[int] = 4

    def check(self, context: CheckContext) -> Check:
        return Check(
            "outputs do not depend on the batch",
            f"largest difference of a logit, alone and in a batch of {BATCH_SIZE}, in two orders",
            _largest_difference(context),
            ROUNDING,
            "the output of an example depends on the batch it is in: model.attention or "
            "model.position attends to padding; choose another kind.",
        )


@torch.no_grad()
def _largest_difference(context: CheckContext) -> float:
    """Compare each example alone, in a padded batch, and in the same batch in reverse order."""
    examples = context.examples[:BATCH_SIZE]
    alone = [model_inputs(example).logits(context.model)[0] for example in examples]
    batched = model_inputs(context.batch(examples)).logits(context.model)
    reverse = model_inputs(context.batch(examples[::-1])).logits(context.model).flip(0)
    differences = [
        relative_size(together[row, : len(logits)] - logits, logits)
        for together in (batched, reverse)
        for row, logits in enumerate(alone)
    ]
    return worst(differences)
