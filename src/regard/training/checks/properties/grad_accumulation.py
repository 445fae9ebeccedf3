"""The gradient of one large batch equals the accumulated gradients of several small ones."""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from regard.data.batches.base import Batch
from regard.training.checks.properties.base import KINKS, Check, Property
from regard.training.checks.setup import CheckContext
from regard.training.learner import Learner


class Spec(Property):
    order: ClassVar[int] = 7

    def check(self, context: CheckContext) -> Check:
        # Sorted by length, so that the quarters differ in tokens: a mean of means would pass else.
        examples = sorted(context.examples, key=lambda example: example.num_targets)
        size = len(examples) // 4
        quarters = [context.batch(examples[at : at + size]) for at in range(0, len(examples), size)]
        unclipped = context.training.model_copy(update={"max_grad_norm": math.inf})
        whole, accumulated = (
            _gradient(context.learner(unclipped), batches)
            for batches in ([context.batch(examples)], quarters)
        )
        return Check(
            f"1 batch of {len(examples)} equals {len(quarters)} of {size}",
            "norm of the difference of the two gradients, relative to the gradient's norm",
            float((whole - accumulated).norm() / whole.norm()),
            KINKS,
            "training.grad_accumulation would change the gradient: the task's loss must be the sum "
            "over the tokens of a batch, not their mean.",
        )


def _gradient(learner: Learner, batches: Sequence[Batch]) -> Tensor:
    """Return the gradients of one update, those of all parameters concatenated."""
    learner.update(batches, step=1, progress=0.0)
    gradients = (parameter.grad for parameter in learner.model.parameters())
    return torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])
