"""Muon (Jordan et al. 2024): matrices are updated by the orthogonal matrix nearest the momentum.

    M ← μM + G        W ← W − η · 0.2 √max(rows, columns) · orthogonal(G + μM)

All singular values of an update are then equal, where in Adam's a few dominate. The factor gives
the update the size that Adam's would have (Liu et al. 2025), so one learning rate serves both.
Embeddings, norms and biases are updated by AdamW.

`orthogonal` takes three polynomial steps, in the precision of the training's products: torch's Muon
uses bfloat16 always, which many CPUs compute a hundred times slower than float32.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.training.distributed.fsdp import full_tensor, is_sharded, shard_like
from regard.training.optim.optimizers.base import Beta, OptimizerSpec, matrices_and_others


class Muon(torch.optim.Optimizer):
    """The optimizer of matrices."""

    def __init__(
        self,
        parameters: Iterable[dict[str, Any]],
        lr: float,
        momentum: float,
        weight_decay: float,
        iterations: int = 3,
        precision: torch.dtype = torch.float32,
    ) -> None:
        self.precision = precision
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(parameters, {**settings, "iterations": iterations})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameters in _batches(group["params"]):
                momenta = self._nesterov(parameters, group["momentum"])
                matrices = torch.stack(momenta)
                updates = orthogonal(matrices, group["iterations"], self.precision).to(matrices)
                step = group["lr"] * 0.2 * max(parameters[0].shape) ** 0.5
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                shards = [shard_like(*pair) for pair in zip(updates, parameters, strict=True)]
                torch._foreach_add_(parameters, shards, alpha=-step)

    def _nesterov(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Update the momenta; return Nesterov's momentum, G + μM."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        momenta = [self._momentum(parameter) for parameter in parameters]
        torch._foreach_mul_(momenta, momentum)
        torch._foreach_add_(momenta, gradients)
        return [full_tensor(t) for t in torch._foreach_add(gradients, momenta, alpha=momentum)]

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum


def _batches(parameters: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    """Group matrices of one shape: few large products instead of many small ones.

    Sharded ones are computed one by one: there may not be memory for all of them at once.
    """
    batches: dict[Hashable, list[Tensor]] = defaultdict(list)
    for parameter in parameters:
        if parameter.grad is not None:
            batches[parameter if is_sharded(parameter) else parameter.shape].append(parameter)
    return batches.values()


def orthogonal(matrices: Tensor, steps: int = 3, precision: torch.dtype = torch.float32) -> Tensor:
    """Return about U Vᵀ for each matrix U Σ Vᵀ of a batch (N, rows, columns)."""
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * MARGIN + 1e-7)
    # The Gram matrix squares the range of singular values: too wide for bfloat16.
    by_gram = 2 * x.size(-2) <= x.size(-1) and precision != torch.bfloat16
    iterate = _on_gram if by_gram else _on_matrix
    result: Tensor = iterate(x.to(torch.bfloat16) if precision == torch.bfloat16 else x, steps)
    return result.mT if tall else result


# Quintics that, composed, map singular values in (0, 1] as near to 1 as so many can: the Polar
# Express (Amsel et al. 2025, algorithm 1), with its margin for rounding.
#     x ← (a₁ I + a₃ g + a₅ g²) x,  g = x xᵀ
QUINTICS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)
MARGIN = 1.01


def _on_matrix(x: Tensor, steps: int) -> Tensor:
    for a1, a3, a5 in QUINTICS[:steps]:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=a3, alpha=a5), x, beta=a1)
    return x


def _on_gram(x: Tensor, steps: int) -> Tensor:
    """Iterate on the Gram matrix: for wide matrices, products of the small side only.

    With p = a₁ I + a₃ g + a₅ g², which commutes with g, the next g is p g p; the factors p are
    multiplied into q, which multiplies x once.
    """
    gram = x @ x.mT
    q = None
    for step, (a1, a3, a5) in enumerate(QUINTICS[:steps], start=1):
        p = torch.baddbmm(gram, gram, gram, beta=a3, alpha=a5)
        p.diagonal(dim1=-2, dim2=-1).add_(a1)
        q = p if q is None else p @ q
        if step < steps:
            gram = p @ (gram @ p)
    return q @ x if q is not None else x


class Spec(OptimizerSpec):
    """optimizer: {kind: muon, momentum: 0.9}"""

    planned: ClassVar[float] = 4.4e-3

    learning_rate: float | None = Field(
        None, gt=0, lt=1, description="peak rate (default: chosen by the number of updates)"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="μ, of matrices")
    iterations: int = Field(
        3, gt=0, le=len(QUINTICS), description="polynomial steps towards the orthogonal matrix"
    )
    betas: tuple[Beta, Beta] = Field(
        (0.9, 0.98), description="Adam's β₁ and β₂, for other parameters"
    )

    def build(
        self, model: nn.Module, precision: torch.dtype = torch.float32
    ) -> list[torch.optim.Optimizer]:
        matrices, others = matrices_and_others(model)
        adam = torch.optim.AdamW(
            _group(others), lr=self.rate(), betas=self.betas, weight_decay=0.0, fused=True
        )
        muon = Muon(
            _group(matrices),
            self.rate(),
            self.momentum,
            self.weight_decay,
            self.iterations,
            precision,
        )
        return [muon, adam]


def _group(parameters: list[nn.Parameter]) -> list[dict[str, Any]]:
    """Return one parameter group, which may be empty where parameters are frozen."""
    return [{"params": parameters}]
