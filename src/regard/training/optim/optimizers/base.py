"""How the weights move, one file a kind."""

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import nn

from regard.config import Kind

USUAL_UPDATES, MIN_UPDATES = (
    1000,
    100,
)  # updates: of the training that rates are named for, and of the shortest

Beta = Annotated[float, Field(ge=0, lt=1)]  # how much of the past a memory of Adam's keeps


class OptimizerSpec(Kind, package="regard.training.optim.optimizers", default="muon"):
    """A kind of optimizer. Its rate is multiplied by the schedule's factor at each step."""

    learning_rate: float | None = Field(
        2e-3, gt=0, lt=1, description="at its peak; null: by how long training is"
    )
    planned: ClassVar[float] = 2e-3  # the rate of a training of the usual length
    weight_decay: float = Field(0.01, ge=0, description="on matrices; not on norms and biases")

    def rate(self, updates: float = USUAL_UPDATES) -> float:
        """At its peak, in a training of so many updates.

        A short training must go far in few steps; a long one has time, and less noise to average.
        """
        if self.learning_rate is not None:
            return self.learning_rate
        return self.planned * math.sqrt(USUAL_UPDATES / max(updates, MIN_UPDATES))

    def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
        raise NotImplementedError


def matrices_and_others(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices that map vectors to vectors; and embeddings, norms and biases."""
    embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in trained if p.dim() == 2 and id(p) not in embedded]
    others = [p for p in trained if p.dim() != 2 or id(p) in embedded]
    return matrices, others
