"""Base class of the optimizers, and their learning rate."""

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import nn

from regard.config import Kind

USUAL_UPDATES, MIN_UPDATES = (
    1000,
    100,
)  # of the training that rates refer to; lower bound

Beta = Annotated[float, Field(ge=0, lt=1)]  # decay of a moving average of Adam


class OptimizerSpec(Kind, package="regard.training.optim.optimizers", default="muon"):
    """An optimizer kind. Its learning rate is multiplied by the schedule's factor at each step."""

    learning_rate: float | None = Field(
        2e-3, gt=0, lt=1, description="peak rate; null: chosen by the number of updates"
    )
    planned: ClassVar[float] = 2e-3  # rate of a training of USUAL_UPDATES
    weight_decay: float = Field(0.01, ge=0, description="of matrices; norms and biases have none")

    def rate(self, updates: float = USUAL_UPDATES) -> float:
        """Return the peak learning rate in a training of so many updates.

        A short training needs large steps; a long one has time for small ones, which average noise.
        """
        if self.learning_rate is not None:
            return self.learning_rate
        return self.planned * math.sqrt(USUAL_UPDATES / max(updates, MIN_UPDATES))

    def build(
        self, model: nn.Module, precision: torch.dtype = torch.float32
    ) -> list[torch.optim.Optimizer]:
        """Return optimizers for the parameters of the model that are not frozen.

        `precision` is that of the products of the training. Parameters and the state of an
        optimizer are in float32.
        """
        raise NotImplementedError


def matrices_and_others(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Split the trained parameters into linear maps, and embeddings, norms and biases."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in trained if p.dim() == 2 and id(p) not in embeddings]
    others = [p for p in trained if p.dim() != 2 or id(p) in embeddings]
    return matrices, others
