"""Low-rank adapters (LoRA, Hu et al. 2021): what fine-tuning changes in a matrix has a low rank.

    y = W x + (alpha / rank) · B A dropout(x)        A: rank × inputs, B: outputs × rank

W stays as it is. B begins at zero, so that the model begins as it was; A is drawn at random.
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


class Adapted(nn.Module):
    """A linear map with a low-rank one beside it; whoever asks for its weight gets their sum."""

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

    def beside(self, x: Tensor) -> Tensor:
        return self.scale * F.linear(F.linear(self.dropout(x), self.a), self.b)

    def forward(self, x: Tensor) -> Tensor:
        mapped: Tensor = self.base(x)
        return mapped + self.beside(x)


class Spec(AdapterSpec):
    """adapter: {kind: lora, rank: 8, alpha: 16, on: [w_q, w_v]}"""

    rank: int = Field(8, gt=0, description="of the change: how many directions it has")
    alpha: float = Field(16.0, gt=0, description="the change is multiplied by alpha / rank")
    on: tuple[str, ...] = Field(
        ("w_q", "w_v"), min_length=1, description="linear maps by name: w_k, w_o, widen, narrow …"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="on what the adapter reads")

    def attach(self, model: nn.Module) -> None:
        for name, linear in self._chosen(model).items():
            _replace(model, name, Adapted(linear, self.rank, self.alpha / self.rank, self.dropout))

    @torch.no_grad()
    def merge(self, model: nn.Module) -> None:
        for name, module in list(model.named_modules()):
            if isinstance(module, Adapted):
                module.base.weight.copy_(module.weight)
                _replace(model, name, module.base)

    def _chosen(self, model: nn.Module) -> dict[str, nn.Linear]:
        linears = {n: each for n, each in model.named_modules() if isinstance(each, nn.Linear)}
        names = {name: name for name in linears}
        chosen = {
            each for pattern in self.on for each in match_parameters(pattern, names, "adapter.on")
        }
        shared = Counter(map(id, all_names(model).values()))
        for name, linear in linears.items():
            smaller = min(linear.weight.shape)
            if name in chosen and self.rank > smaller:
                raise ConfigError(
                    f"adapter.rank: {self.rank} is more than {name} has, which is "
                    f"{linear.out_features} × {linear.in_features}; give {smaller} at most."
                )
            if name in chosen and shared[id(linear.weight)] > 1:
                raise ConfigError(
                    f"adapter.on: {name} shares its weights with an embedding, and an adapter "
                    f"would part them; leave it out."
                )
        return {name: linear for name, linear in linears.items() if name in chosen}


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
