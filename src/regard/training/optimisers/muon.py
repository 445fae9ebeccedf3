"""Muon (Jordan et al. 2024): matrices move along the nearest orthogonal matrix to their momentum.

    M ← μM + G        W ← W − η · 0.2 √max(rows, columns) · orthogonal(G + μM)

Every direction of a matrix then moves as fast as every other, where Adam lets a few strong ones
lead. The factor gives the update the size that Adam's would have (Liu et al. 2025), so one learning
rate serves both. Embeddings, norms and biases are moved by AdamW.

`orthogonal` is five Newton–Schulz steps, in the parameters' own precision: torch's own Muon takes
bfloat16, which many a CPU computes a hundred times slower than float32.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.training.optimisers import OptimiserSpec, matrices_and_others


class Muon(torch.optim.Optimizer):
    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            # Matrices of one shape go as a batch: few large products instead of many small ones.
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                looking_ahead = [self._momentum(p, group["momentum"]) for p in parameters]
                updates = orthogonal(torch.stack(looking_ahead))
                step = group["lr"] * 0.2 * max(shape) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-step)

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """Nesterov's: the gradient, and where the momentum is going."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].mul_(momentum).add_(parameter.grad)
        ahead: Tensor = parameter.grad.add(state["momentum"], alpha=momentum)
        return ahead


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """Nearly U Vᵀ for each matrix U Σ Vᵀ of a batch (N, rows, columns)."""
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        # A quintic that takes any singular value in (0, 1] to about 1; coefficients by its authors.
        #     x ← 3.4445 x + (−4.7750 a + 2.0315 a²) x,  a = x xᵀ
        a = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    answer: Tensor = x.mT if tall else x
    return answer


class Spec(OptimiserSpec):
    """optimiser: {kind: muon, learning_rate: 0.005}"""

    momentum: float = Field(0.95, ge=0, lt=1, description="Muon's memory, for matrices")
    betas: tuple[float, float] = Field((0.9, 0.98), description="Adam's memories, for the others")

    def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
        matrices, others = matrices_and_others(model)
        adam = torch.optim.AdamW(
            others, lr=self.learning_rate, betas=self.betas, weight_decay=0.0, fused=True
        )
        return [Muon(matrices, self.learning_rate, self.momentum, self.weight_decay), adam]
