"""Residual connections and norms make deep stacks trainable."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.lab import text
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, interval, ratio, select_by_others
from regard.layers.decoder import DecoderBlock
from regard.layers.residual import Residual
from regard.models.base import ModelSpec
from regard.models.language_model import LanguageModel

ROWS = 16
LENGTH = 16
# (residual connections, norms)
VARIANTS: Mapping[str, tuple[bool, bool]] = {
    "both": (True, True),
    "no residuals": (False, True),
    "no norms": (True, False),
}
DIVERGED_LOSS = 1e6  # replaces a loss that is not finite
REACH, POINTS = 1.0, 21  # a line goes from −1 to 1 times the norm of the weights


class Spec(Claim):
    number: ClassVar[int] = 9
    title: ClassVar[str] = "Residual connections and norms make deep stacks trainable"
    statement: ClassVar[str] = (
        "Residual connections, whose gradient is 1, and layer normalization help deep stacks "
        "train; residual connections make the loss surface smoother."
    )
    experiment: ClassVar[str] = (
        "Language models of growing depth are trained on the bundled text for equal steps on equal "
        "batches: with residual connections and norms in their blocks, and without one or the "
        "other; the norm before the output stays. All start from the same weights, which are not "
        "scaled down by depth as they are elsewhere in this library: that is a remedy of its own, "
        "and in a first trial with it (one seed; 4, 8 and 32 layers) models without any norm, the "
        "one before the output included, reached a lower loss than those with norms. Each variant "
        "is trained at several learning rates; each seed is judged at the one that is best with "
        "the other seeds. Then, at a moderate depth, "
        "the loss of one batch is computed along random filter-normalized directions through the "
        "trained weights (Li et al. 2018): its mean absolute second difference is the roughness. "
        "The roughness over the range of each line is shown too, because a model that has learned "
        "little has a flat loss. A loss that is not finite counts as a million."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "deep": Criterion("loss, deepest minus shallowest, with both", at_most=0.1),
        "residuals": Criterion("loss of the deepest, no residuals minus both", at_least=0.1),
        "norms": Criterion("loss of the deepest, no norms minus both", at_least=0.0),
        "smoother": Criterion("roughness, no residuals over both", at_least=1.0),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "depths": (1, 3),
        "surface_depth": 3,
        "steps": 6,
        "rates": (3e-3,),
        "directions": 2,
        "sentences": 500,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {"walked": "surface_depth"}

    depths: tuple[int, ...] = Field((2, 4, 8, 32), description="numbers of layers")
    rates: tuple[float, ...] = Field((2e-3, 1e-2), description="learning rates to choose from")
    dim: int = Field(32, gt=0, description="D of the models")
    steps: int = Field(80, gt=0, description="training steps")
    surface_depth: int = Field(
        4, gt=0, description="layers of the models whose loss surface is measured"
    )
    directions: int = Field(6, gt=0, description="random directions for each model")
    sentences: int = Field(8000, gt=0, description="training sentences of the bundled text")

    def gather(self, experiment: Experiment) -> Evidence:
        runs: list[dict[str, Any]] = []
        surfaces: list[dict[str, Any]] = []
        depths = sorted({*self.depths, self.surface_depth})
        layers = sum(depths) * self.steps * len(self.rates)
        with experiment.plan(self.seeds * len(VARIANTS) * layers, "layers trained"):
            for seed in range(self.seeds):
                for variant in VARIANTS:
                    for depth in depths:
                        for rate in self.rates:
                            model, curve = self._learn(experiment, variant, depth, rate, seed)
                            run = {"seed": seed, "variant": variant, "depth": depth, "rate": rate}
                            runs.append({**run, "curve": curve})
                            if depth == self.surface_depth:
                                lines = self._loss_surface(experiment, model, seed)
                                surfaces.append({**run, "losses": lines})
        return {"runs": runs, "surfaces": surfaces}

    def _learn(
        self, experiment: Experiment, variant: str, depth: int, rate: float, seed: int
    ) -> tuple[LanguageModel, list[float]]:
        torch.manual_seed(seed)
        corpus = text.sentences(self.sentences)
        sizes = {"dim": self.dim, "heads": 4, "ffn_dim": 2 * self.dim, "dropout": 0.0}
        settings = {"kind": "language-model", "layers": depth, "max_length": LENGTH, **sizes}
        model = ModelSpec.model_validate(settings).build(len(corpus.vocabulary))
        assert isinstance(model, LanguageModel)
        without(model, *VARIANTS[variant])
        model.to(experiment.device)

        def loss(_: nn.Module, step: int) -> Tensor:
            rows = text.windows(corpus.train, LENGTH + 1, ROWS, seed, step).to(experiment.device)
            return _loss(model, rows)

        advance = experiment.advance
        experiment.advance = lambda steps: advance(steps * depth)
        try:
            return model, [_finite(mean) for mean in experiment.fit(model, loss, self.steps, rate)]
        finally:
            experiment.advance = advance

    @torch.no_grad()
    def _loss_surface(
        self, experiment: Experiment, model: LanguageModel, seed: int
    ) -> list[list[float]]:
        """Return the loss of one batch along each direction through the trained weights."""
        corpus = text.sentences(self.sentences)
        rows = text.windows(corpus.train, LENGTH + 1, 2 * ROWS, seed, self.steps).to(
            experiment.device
        )
        weights = [parameter.detach().clone() for parameter in model.parameters()]
        lines = []
        for number in range(self.directions):
            directions = direction(weights, seed, number)
            line = []
            for distance in torch.linspace(-REACH, REACH, POINTS).tolist():
                for parameter, weight, step in zip(
                    model.parameters(), weights, directions, strict=True
                ):
                    parameter.copy_(weight + distance * step)
                line.append(_finite(float(_loss(model, rows))))
            lines.append(line)
        return lines

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        last = {variant: self._losses(evidence, variant, max(self.depths)) for variant in VARIANTS}
        first = self._losses(evidence, "both", min(self.depths))
        rough = {
            variant: [roughness(lines) for lines in self._surfaces(evidence, variant)]
            for variant in VARIANTS
        }
        return {
            "deep": difference(last["both"], first),
            "residuals": difference(last["no residuals"], last["both"]),
            "norms": difference(last["no norms"], last["both"]),
            "smoother": ratio(rough["no residuals"], rough["both"]),
        }

    def _by_rate(self, evidence: Evidence, variant: str, depth: int) -> dict[float, list[float]]:
        """Return the last losses by seed, for each learning rate."""
        return {
            rate: [
                run["curve"][-1]
                for run in evidence["runs"]
                if (run["variant"], run["depth"], run["rate"]) == (variant, depth, rate)
            ]
            for rate in self.rates
        }

    def _losses(self, evidence: Evidence, variant: str, depth: int) -> list[float]:
        """Return the last loss of each seed, at the best learning rate by the other seeds."""
        by_rate = self._by_rate(evidence, variant, depth)
        return [by_rate[rate][seed] for seed, rate in enumerate(select_by_others(by_rate))]

    def _surfaces(self, evidence: Evidence, variant: str) -> list[list[list[float]]]:
        """Return the lines of each seed, at the best learning rate by the other seeds."""
        rates = select_by_others(self._by_rate(evidence, variant, self.surface_depth))
        surfaces = {
            rate: [
                surface["losses"]
                for surface in evidence["surfaces"]
                if (surface["variant"], surface["rate"]) == (variant, rate)
            ]
            for rate in self.rates
        }
        return [surfaces[rate][seed] for seed, rate in enumerate(rates)]

    def show(self, evidence: Evidence) -> list[Figure]:
        depths = sorted({*self.depths, self.surface_depth})
        best = {
            variant: {d: self._losses(evidence, variant, d) for d in depths} for variant in VARIANTS
        }
        losses = [
            [variant, *(str(interval(losses)) for losses in by_depth.values())]
            for variant, by_depth in best.items()
        ]
        lines = {
            variant: {float(depth): interval(losses) for depth, losses in by_depth.items()}
            for variant, by_depth in best.items()
        }
        surfaces = {variant: self._surfaces(evidence, variant) for variant in VARIANTS}
        rough = [
            [
                variant,
                *(
                    str(interval([measure(lines) for lines in seeds]))
                    for measure in (roughness, jaggedness)
                ),
            ]
            for variant, seeds in surfaces.items()
        ]
        return [
            Table(
                f"Training loss after {self.steps} steps, at the rate chosen by other seeds",
                ["", *(f"{depth} layers" for depth in depths)],
                losses,
            ),
            Table(
                f"Roughness at {self.surface_depth} layers",
                ["", "mean |second difference|", "over the range"],
                rough,
            ),
            Plot("Depth", "layers", "last training loss", lines, log_x=True, log_y=True),
            Plot(
                "Loss along random directions",
                "distance from the trained weights",
                "loss",
                {variant: _mean_line(seeds) for variant, seeds in surfaces.items()},
            ),
        ]


class NoResidual(nn.Module):
    """Return the output of the sublayer without a residual connection."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def sublayer_input(self, x: Tensor) -> Tensor:
        normalized: Tensor = self.norm(x)
        return normalized

    def add(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        return sublayer_output


def without(model: LanguageModel, residuals: bool, norms: bool) -> None:
    """Remove residual connections or norms from the blocks of a pre-norm model."""
    blocks = model.decoder.blocks
    for block in blocks:
        assert isinstance(block, DecoderBlock)
        for residual_name in ("attention_residual", "feed_forward_residual"):
            residual: Residual = getattr(block, residual_name)
            if not norms:
                residual.norm = nn.Identity()
            if not residuals:
                setattr(block, residual_name, NoResidual(residual.norm))
    # Undo the initial scale 1/√(2·layers), so that all variants start alike.
    for name, parameter in model.named_parameters():
        if name.endswith(("w_o.weight", "down_proj.weight")):
            parameter.data.mul_((2 * len(blocks)) ** 0.5)


def direction(weights: list[Tensor], *seed: int) -> list[Tensor]:
    """Return a random direction whose filters (rows of matrices) have the norms of the weights'.

    Biases and gains do not move (Li et al. 2018, section 4).
    """
    rng = generator(*seed)
    directions = []
    for weight in weights:
        noise = torch.randn(weight.shape, generator=rng).to(weight)
        if weight.dim() < 2:
            directions.append(torch.zeros_like(weight))
        else:
            weight_norm, noise_norm = (
                tensor.norm(dim=1, keepdim=True) for tensor in (weight, noise)
            )
            directions.append(noise * weight_norm / noise_norm)
    return directions


def roughness(lines: list[list[float]]) -> float:
    """Return the mean absolute second difference of losses along lines."""
    return float(_second_differences(torch.tensor(lines, dtype=torch.float64)).mean())


def jaggedness(lines: list[list[float]]) -> float:
    """Return the roughness over the range of each line."""
    losses = torch.tensor(lines, dtype=torch.float64)
    ranges = (losses.max(1).values - losses.min(1).values).clamp_min(1e-12)
    return float((_second_differences(losses).mean(1) / ranges).mean())


def _mean_line(seeds: list[list[list[float]]]) -> dict[float, Interval]:
    """Return the mean loss at each point over all lines of all seeds."""
    distances = torch.linspace(-REACH, REACH, POINTS).tolist()
    losses = zip(*(line for lines in seeds for line in lines), strict=True)
    return {distance: interval(values) for distance, values in zip(distances, losses, strict=True)}


def _second_differences(losses: Tensor) -> Tensor:
    return (losses[:, 2:] - 2 * losses[:, 1:-1] + losses[:, :-2]).abs()


def _loss(model: nn.Module, rows: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def _finite(loss: float) -> float:
    return loss if math.isfinite(loss) else DIVERGED_LOSS
