"""Adam (Kingma and Ba 2015), as Vaswani et al. 2017 used it; torch's own."""

import torch
from pydantic import Field
from torch import nn

from regard.training.optim.optimizers.base import OptimizerSpec


class Spec(OptimizerSpec):
    """optimizer: {kind: adam, learning_rate: 0.001}"""

    betas: tuple[float, float] = Field((0.9, 0.98), description="β₁ and β₂")
    eps: float = Field(1e-9, gt=0, description="added to the denominator")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty: added to the gradient")

    def build(
        self, model: nn.Module, precision: torch.dtype = torch.float32
    ) -> list[torch.optim.Optimizer]:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return [
            torch.optim.Adam(
                trained,
                lr=self.rate(),
                betas=self.betas,
                eps=self.eps,
                weight_decay=self.weight_decay,
                fused=True,
            )
        ]
