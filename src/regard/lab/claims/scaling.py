"""Dot products grow with their dimension; scores are divided by √K for that reason."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.lab import tasks
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, interval
from regard.models.base import ModelSpec

KEYS = 64  # keys of each query
QUERIES = 256
SYMBOLS = 16
VARIANTS = ("divided by √K", "not divided")


class Spec(Claim):
    number: ClassVar[int] = 8
    title: ClassVar[str] = "Dot products grow with their dimension"
    statement: ClassVar[str] = (
        "The dot product of K-dimensional vectors of unit variance has variance K, which would "
        "saturate the softmax and make its gradient vanish; therefore scores are divided by √K."
    )
    experiment: ClassVar[str] = (
        "Queries and 64 keys of unit variance are drawn for growing K: the variance of their dot "
        "products, the largest weight of the softmax and the norm of its gradient are measured, "
        "with and without the division. Then a one-layer, one-head language model is trained to "
        "reverse a row of symbols with and without the division, from the same weights and on the "
        "same rows."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "variance": Criterion("variance of q·k, over K", at_least=0.95, at_most=1.05),
        "saturated": Criterion("largest weight at the largest K, not divided", at_least=0.8),
        "spread": Criterion("largest weight at the largest K, divided", at_most=0.25),
        "starved": Criterion(
            "gradient of the softmax at the largest K, not divided over divided", at_most=1.0
        ),
        "slower": Criterion("mean training loss, not divided minus divided", at_least=0.0),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "sizes": (4, 32, 256),
        "steps": 60,
        "head_dim": 128,
        "seeds": 2,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {"key_size": "head_dim"}

    sizes: tuple[int, ...] = Field((4, 8, 16, 32, 64, 128, 256, 512), description="values of K")
    steps: int = Field(300, gt=0, description="training steps")
    head_dim: int = Field(256, gt=0, description="K of the trained model")
    length: int = Field(8, gt=0, description="symbols to reverse")

    def gather(self, experiment: Experiment) -> Evidence:
        units = self.seeds * (len(self.sizes) + 2 * self.steps)
        products: list[dict[str, Any]] = []
        curves: dict[str, list[list[float]]] = {variant: [] for variant in VARIANTS}
        with experiment.plan(units):
            for seed in range(self.seeds):
                for size in self.sizes:
                    products.append({"seed": seed, "size": size, **_products(size, seed)})
                    experiment.advance(1)
                for variant in VARIANTS:
                    curves[variant].append(
                        self._curve(experiment, seed, divided=variant == VARIANTS[0])
                    )
        return {"products": products, "curves": curves}

    def _curve(self, experiment: Experiment, seed: int, divided: bool) -> list[float]:
        torch.manual_seed(seed)
        settings: dict[str, Any] = {"heads": 1, "layers": 1, "dropout": 0.0, "position": "learned"}
        settings |= {"dim": self.head_dim, "ffn_dim": 2 * self.head_dim}
        settings |= {"max_length": 2 * self.length + 1}
        spec = ModelSpec.model_validate({"kind": "language-model", **settings})
        model = spec.build(SYMBOLS).to(experiment.device)

        def loss(model: nn.Module, step: int) -> Tensor:
            return tasks.loss(model, tasks.reverse(self.length, SYMBOLS, seed, step))

        if divided:
            return experiment.fit(model, loss, self.steps)
        with _undivided(model):
            return experiment.fit(model, loss, self.steps)

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        rows, largest = evidence["products"], max(self.sizes)
        at_largest = [row for row in rows if row["size"] == largest]
        undivided, divided = (
            _column(at_largest, name) for name in ("gradient", "gradient_divided")
        )
        mean = {
            variant: [sum(curve) / len(curve) for curve in evidence["curves"][variant]]
            for variant in VARIANTS
        }
        return {
            "variance": interval([row["variance"] / row["size"] for row in rows]),
            "saturated": interval(_column(at_largest, "top")),
            "spread": interval(_column(at_largest, "top_divided")),
            "starved": interval([a / b for a, b in zip(undivided, divided, strict=True)]),
            "slower": difference(mean[VARIANTS[1]], mean[VARIANTS[0]]),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        by_size = {
            size: [row for row in evidence["products"] if row["size"] == size]
            for size in self.sizes
        }
        head = ["K", "variance of q·k", "largest weight", "divided", "gradient", "divided"]
        columns = ("variance", "top", "top_divided", "gradient", "gradient_divided")
        table = [
            [str(size), *(str(interval(_column(rows, name))) for name in columns)]
            for size, rows in by_size.items()
        ]
        curves = {
            variant: {
                float(round((index + 1) * self.steps / len(seeds[0]))): interval(list(values))
                for index, values in enumerate(zip(*seeds, strict=True))
            }
            for variant, seeds in evidence["curves"].items()
        }
        tops = {
            variant: {float(size): interval(_column(rows, name)) for size, rows in by_size.items()}
            for variant, name in zip(VARIANTS, ("top_divided", "top"), strict=True)
        }
        return [
            Table(f"Vectors of unit variance, {KEYS} keys", head, table),
            Plot("Largest weight", "K", "largest weight of the softmax", tops, log_x=True),
            Plot("Training with and without division", "step", "loss", curves),
        ]


def _column(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows]


def _products(size: int, seed: int) -> dict[str, float]:
    """Measure vectors of unit variance: variance of the dot products, and the softmax of them."""
    rng = generator(seed, size)
    queries = torch.randn(QUERIES, size, generator=rng)
    keys = torch.randn(QUERIES, KEYS, size, generator=rng)
    scores = torch.einsum("qk,qsk->qs", queries, keys)
    top, gradient = _softmax(scores)
    top_divided, gradient_divided = _softmax(scores / size**0.5)
    return {
        "variance": float(scores.var()),
        "top": top,
        "gradient": gradient,
        "top_divided": top_divided,
        "gradient_divided": gradient_divided,
    }


def _softmax(scores: Tensor) -> tuple[float, float]:
    """Return the mean largest weight, and the mean norm of ∂α/∂e = diag(α) − α αᵀ."""
    weights = scores.softmax(-1)
    jacobian = weights.diag_embed() - weights[:, :, None] * weights[:, None, :]
    return float(weights.max(-1).values.mean()), float(jacobian.flatten(1).norm(dim=1).mean())


@contextmanager
def _undivided(model: nn.Module) -> Iterator[None]:
    """Multiply the queries of each attention by √K, which cancels the division."""
    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs: (inputs[0] * inputs[0].size(-1) ** 0.5, *inputs[1:])
        )
        for module in model.modules()
        if isinstance(module, Attention)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
