"""Adam with decoupled weight decay (Loshchilov and Hutter 2019), torch's own."""

import torch
from pydantic import Field
from torch import nn

from regard.training.optim.optimizers.base import Beta, OptimizerSpec, matrices_and_others


class Spec(OptimizerSpec):
    """optimizer: {kind: adamw, learning_rate: 0.002}"""

    betas: tuple[Beta, Beta] = Field((0.9, 0.98), description="β₁ and β₂")

    def build(
        self, model: nn.Module, precision: torch.dtype = torch.float32
    ) -> list[torch.optim.Optimizer]:
        matrices, others = matrices_and_others(model)
        groups = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return [torch.optim.AdamW(groups, lr=self.rate(), betas=self.betas, fused=True)]
