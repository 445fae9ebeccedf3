"""Decoding token by token with a cache gives the logits of one forward pass."""

from dataclasses import replace
from typing import ClassVar, cast

import torch

from regard.models.autoregressive import Autoregressive
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
    order: ClassVar[int] = 5

    def check(self, context: CheckContext) -> Check:
        return Check(
            "cached decoding equals one forward pass",
            "largest difference of a logit, with and without cache, rows reordered at each token",
            _largest_difference(context),
            ROUNDING,
            "decoding will not compute what training taught: model.attention or model.position "
            "does not continue correctly from cached keys and values; choose another kind.",
        )


@torch.no_grad()
def _largest_difference(context: CheckContext) -> float | None:
    """Decode with the rows reversed at every step, as beam search reorders hypotheses."""
    batch = context.batch(context.examples[:BATCH_SIZE])
    inputs = replace(model_inputs(batch), documents=None)  # a decoder reads one document
    if inputs.target is None:
        return None
    model = cast("Autoregressive", context.model)
    full, state, differences = inputs.logits(context.model), inputs.start(context.model), []
    rows = torch.arange(len(full), device=full.device)
    reverse = rows.flip(0)
    for position in range(inputs.target.size(1)):
        logits, state = model.step(inputs.target[rows, position], state)
        differences.append(relative_size(logits - full[rows, position], full))
        rows, state = rows.flip(0), state.reorder(reverse)
    return worst(differences)
