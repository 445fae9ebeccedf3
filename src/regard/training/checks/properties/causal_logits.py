"""Logits do not depend on later tokens."""

from typing import ClassVar

import torch

from regard.training.checks.properties.base import EXACT, Check, Property, relative_size
from regard.training.checks.setup import CheckContext, longest_repeated


class Spec(Property):
    order: ClassVar[int] = 2

    def check(self, context: CheckContext) -> Check:
        return Check(
            "logits do not depend on later tokens",
            "largest change of a logit when a later token changes",
            _largest_change(context),
            EXACT,
            "tokens attend to the tokens they should predict, so the loss will be too good to be "
            "true: model.attention or model.position ignores the causal mask; choose another kind.",
        )


@torch.no_grad()
def _largest_change(context: CheckContext) -> float | None:
    """Change token t in row t of a batch of equal rows; the logits before t must not change."""
    inputs = longest_repeated(context)
    if inputs.target is None:
        return None
    before = inputs.logits(context.model)
    diagonal = torch.eye(len(before), dtype=torch.bool, device=before.device)
    other = (inputs.target + 1) % before.size(-1)
    after = inputs.with_target(torch.where(diagonal, other, inputs.target)).logits(context.model)
    earlier = torch.ones_like(diagonal).tril(-1)  # (row, position): position < row
    return relative_size((after - before)[earlier], before)
