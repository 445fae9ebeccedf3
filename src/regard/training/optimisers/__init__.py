"""How the weights move, one file a kind."""

from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from regard.config import Kind

Beta = Annotated[float, Field(ge=0, lt=1)]  # how much of the past a memory of Adam's keeps


class OptimiserSpec(Kind, room="regard.training.optimisers", default="muon"):
    """A kind of optimiser. Its rate is multiplied by the schedule's factor at each step."""

    learning_rate: float = Field(2e-3, gt=0, lt=1, description="at its peak")
    weight_decay: float = Field(0.01, ge=0, description="on matrices; not on norms and biases")

    def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
        raise NotImplementedError


def matrices_and_others(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices that map vectors to vectors; and embeddings, norms and biases."""
    embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in trained if p.dim() == 2 and id(p) not in embedded]
    others = [p for p in trained if p.dim() != 2 or id(p) in embedded]
    return matrices, others
