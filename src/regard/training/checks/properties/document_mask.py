"""Documents packed into one row are independent of each other."""

from dataclasses import replace
from typing import ClassVar

import torch

from regard.training.checks.properties.base import (
    BATCH_SIZE,
    ROUNDING,
    Check,
    Property,
    relative_size,
)
from regard.training.checks.setup import CheckContext, ModelInputs, model_inputs


class Spec(Property):
    order: ClassVar[int] = 6

    def check(self, context: CheckContext) -> Check:
        return Check(
            "documents in a row are independent",
            "largest difference of a logit, alone and packed with another document",
            _largest_difference(context),
            ROUNDING,
            "tokens attend to other documents than their own: model.attention or model.position "
            "ignores document boundaries; choose another kind.",
            "no document mask is used",
        )


@torch.no_grad()
def _largest_difference(context: CheckContext) -> float | None:
    """Cut every row into two documents, wherever boundaries happen to be in this text."""
    inputs = model_inputs(context.batch(context.examples[:BATCH_SIZE]))
    if inputs.target is None or inputs.documents is None:
        return None
    length = inputs.target.size(1)
    boundary = max(1, length // 3)
    numbers = (torch.arange(length, device=inputs.target.device) >= boundary).long()
    packed = replace(inputs, documents=numbers.expand_as(inputs.target)).logits(context.model)
    alone = [
        ModelInputs((), document).logits(context.model)
        for document in (inputs.target[:, :boundary], inputs.target[:, boundary:])
    ]
    return relative_size(packed - torch.cat(alone, dim=1), packed)
