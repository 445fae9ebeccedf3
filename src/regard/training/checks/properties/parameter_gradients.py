"""Every parameter that is not frozen gets a gradient."""

import re
from typing import ClassVar

from regard.training.checks.properties.base import BATCH_SIZE, Check, Property
from regard.training.checks.setup import CheckContext


class Spec(Property):
    order: ClassVar[int] = 8

    def check(self, context: CheckContext) -> Check:
        missing = _without_gradient(context)
        return Check(
            "every parameter gets a gradient",
            "parameters without one",
            len(missing),
            0,
            f"these will not be trained: {', '.join(sorted(missing))}; they are frozen, or the "
            f"loss does not depend on them.",
        )


def _without_gradient(context: CheckContext) -> set[str]:
    """Make two updates: one half of an adapter gets no gradient while the other half is zero."""
    learner = context.learner()
    parameters = dict(learner.model.named_parameters())
    missing = {_any_expert(name) for name in parameters.keys() - context.frozen}
    for step in (1, 2):
        learner.update([context.batch(context.examples[:BATCH_SIZE])], step, progress=0.0)
        trained = (n for n, p in parameters.items() if p.grad is not None and p.grad.any())
        missing -= set(map(_any_expert, trained))
    return missing


def _any_expert(name: str) -> str:
    """Replace the number of an expert: a few examples are routed to some of the experts only."""
    return re.sub(r"\.experts\.\d+\.", ".experts.*.", name)
