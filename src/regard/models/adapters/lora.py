"""LoRA (Hu et al. 2021): a low-rank update of linear layers.

    y = W x + (alpha / rank) · B A dropout(x)        A: rank × inputs, B: outputs × rank

W is frozen. B starts at zero, so that the model starts unchanged; A is random.
"""

from collections import Counter

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.models.adapters.base import AdapterSpec
from regard.models.transfer.names import all_names, match_parameters


class LoRALinear(nn.Module):
    """A linear layer with a low-rank update; `weight` is the sum of both."""

    def __init__(self, base: nn.Linear, rank: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        self.in_features, self.out_features = base.in_features, base.out_features
        self.dropout = Dropout(dropout)
        # A x then has the variance of x.
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * base.in_features**-0.5)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    @property
    def weight(self) -> Tensor:
        return self.base.weight + self.scale * (self.b @ self.a)

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    def low_rank_update(self, x: Tensor) -> Tensor:
        """The output of the low-rank update alone."""
        return self.scale * F.linear(F.linear(self.dropout(x), self.a), self.b)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.base(x)
        return output + self.low_rank_update(x)


class Spec(AdapterSpec):
    """adapter: {kind: lora, rank: 8, alpha: 16, on: [w_q, w_v]}"""

    rank: int = Field(8, gt=0, le=1 << 20, description="rank of the update")
    alpha: float = Field(16.0, gt=0, description="the update is scaled by alpha / rank")
    on: tuple[str, ...] = Field(
        ("w_q", "w_v"), min_length=1, description="linear layers to adapt, by name: w_k, w_o, …"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the input of the update")

    def attach(self, model: nn.Module) -> None:
        for name, linear in self._adapted_layers(model).items():
            _replace(
                model, name, LoRALinear(linear, self.rank, self.alpha / self.rank, self.dropout)
            )

    @torch.no_grad()
    def merge(self, model: nn.Module) -> None:
        for name, module in list(model.named_modules()):
            if isinstance(module, LoRALinear):
                module.base.weight.copy_(module.weight)
                _replace(model, name, module.base)

    def _adapted_layers(self, model: nn.Module) -> dict[str, nn.Linear]:
        linears = {
            name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)
        }
        names = {name: name for name in linears}
        adapted = {
            name for pattern in self.on for name in match_parameters(pattern, names, "adapter.on")
        }
        shared = Counter(map(id, all_names(model).values()))
        for name, linear in linears.items():
            smaller = min(linear.weight.shape)
            if name in adapted and self.rank > smaller:
                raise ConfigError(
                    f"adapter.rank: {self.rank} is more than the rank of {name}, which is "
                    f"{linear.out_features} × {linear.in_features}; set it to {smaller} at most."
                )
            if name in adapted and shared[id(linear.weight)] > 1:
                raise ConfigError(
                    f"adapter.on: {name} shares its weights with an embedding, which an adapter "
                    f"would separate; leave it out."
                )
        return {name: linear for name, linear in linears.items() if name in adapted}


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
