"""Any two tokens interact in one attention layer; in convolutions they need enough layers."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field

from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.gradients import by_position
from regard.lab.intervals import Interval, exactly
from regard.models.base import ModelSpec

SYMBOLS = 16
DIM = 16


class Spec(Claim):
    number: ClassVar[int] = 4
    title: ClassVar[str] = "Distance over which tokens interact"
    statement: ClassVar[str] = (
        "In convolutions, distant tokens interact only through a stack of layers, whose depth "
        "grows with the distance; in self-attention all tokens interact in every layer."
    )
    experiment: ClassVar[str] = (
        "For untrained language models, convolutional and with attention, the gradient of the "
        "output at the last token with respect to every earlier token is computed in double "
        "precision. The distance of the farthest token with a non-zero gradient is the exact reach "
        "of the model. Convolutions of several widths and depths are measured; attention with one "
        "layer."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "windows": Criterion(
            "reach of convolutions, over layers × (width − 1)", at_least=1, at_most=1
        ),
        "attention": Criterion(
            "reach of one attention layer, over the length of the text", at_least=1
        ),
        "filled": Criterion("share of tokens within the reach that have a gradient", at_least=1),
        "depth": Criterion(
            "layers needed to span the text, narrowest convolution over attention", at_least=2
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "windows": (3, 5),
        "layers": (1, 2, 4, 8),
        "length": 33,
        "seeds": 2,
    }

    windows: tuple[Annotated[int, Field(gt=1)], ...] = Field(
        (2, 3, 5, 9), min_length=1, description="widths of the convolutions"
    )
    layers: tuple[Annotated[int, Field(gt=0)], ...] = Field(
        (1, 2, 4, 8, 16, 32, 64), min_length=1, description="numbers of layers"
    )
    length: int = Field(65, gt=1, description="tokens of the text")

    def gather(self, experiment: Experiment) -> Evidence:
        stacks: list[dict[str, int]] = []
        attention: list[dict[str, int]] = []
        with experiment.plan(self.seeds * (len(self.windows) * len(self.layers) + 1), "models"):
            for seed in range(self.seeds):
                attention.append({"seed": seed, **self._reach("language-model", 1, seed)})
                experiment.advance(1)
                for window in self.windows:
                    for layers in self.layers:
                        reach = self._reach("convolutional", layers, seed, window)
                        stacks.append({"seed": seed, "window": window, "layers": layers, **reach})
                        experiment.advance(1)
        return {"windows": stacks, "attention": attention}

    def _reach(self, kind: str, layers: int, seed: int, window: int = 0) -> dict[str, int]:
        """Return the reach of the last token, and the number of tokens with a gradient."""
        settings: dict[str, Any] = {"kind": kind, "layers": layers, "dim": DIM, "dropout": 0.0}
        if kind == "convolutional":
            settings |= {"capability": "causal-lm", "window": window}
        else:
            settings |= {"heads": 2, "ffn_dim": 2 * DIM, "max_length": self.length}
        torch.manual_seed(seed)
        model = ModelSpec.model_validate(settings).build(SYMBOLS).double().eval()
        rng = generator(seed, layers, window)
        ids = torch.randint(SYMBOLS, (1, self.length), generator=rng)
        # Random weights of the logits: a norm keeps some sums constant.
        weights = torch.randn(SYMBOLS, generator=rng, dtype=torch.double)
        norms = by_position(model, ids, lambda logits: (logits[0, -1] * weights).sum())[0]
        distances = [self.length - 1 - int(position) for position in norms.nonzero()]
        return {"distance": max(distances), "tokens": len(distances) - 1}

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        """Compute each criterion exactly: a single exception refutes it."""
        convolutions, attention, longest = (
            evidence["windows"],
            evidence["attention"],
            self.length - 1,
        )
        return {
            "windows": _worst(
                [row["distance"] / min(_theoretical_reach(row), longest) for row in convolutions]
            ),
            "attention": _worst([row["distance"] / longest for row in attention]),
            "filled": _worst(
                [row["tokens"] / row["distance"] for row in (*convolutions, *attention)]
            ),
            "depth": _layers_to_span(convolutions, min(self.windows), longest),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        longest = self.length - 1
        rows = [
            [
                f"{window} tokens",
                *(
                    _values_text(
                        [row["distance"] for row in _rows_of(evidence["windows"], window, layers)]
                    )
                    for layers in self.layers
                ),
                _layers_text(_layers_to_span(evidence["windows"], window, longest)),
            ]
            for window in self.windows
        ]
        reached = _values_text([row["distance"] for row in evidence["attention"]])
        rows.append(["attention", reached, *("" for _ in self.layers[1:]), "1"])
        head = [
            "convolution width",
            *(f"{n} layer{'s' * (n > 1)}" for n in self.layers),
            "layers to span the text",
        ]
        series = {
            f"convolution, width {window}": {
                float(layers): _range(
                    [row["distance"] for row in _rows_of(evidence["windows"], window, layers)]
                )
                for layers in self.layers
            }
            for window in self.windows
        }
        one = _range([row["distance"] for row in evidence["attention"]])
        series["attention"] = {float(min(self.layers)): one}
        return [
            Table(f"Reach of the last token, of {longest} earlier tokens", head, rows),
            Plot("Reach of the last token", "layers", "tokens", series, log_x=True, log_y=True),
        ]


def _theoretical_reach(row: Mapping[str, int]) -> int:
    return row["layers"] * (row["window"] - 1)


def _rows_of(rows: list[dict[str, int]], window: int, layers: int) -> list[dict[str, int]]:
    return [row for row in rows if (row["window"], row["layers"]) == (window, layers)]


def _layers_to_span(rows: list[dict[str, int]], window: int, distance: int) -> Interval:
    """Return the smallest number of layers that span the text, or more than were tried."""
    with_window = [row for row in rows if row["window"] == window]
    sufficient = [row["layers"] for row in with_window if row["distance"] >= distance]
    if sufficient:
        return exactly(min(sufficient))
    beyond = 1.0 + max(row["layers"] for row in with_window)
    return Interval(beyond, beyond, float("inf"))


def _layers_text(layers: Interval) -> str:
    exact = layers.low == layers.high
    return f"{layers.mean:.0f}" if exact else f"more than {layers.mean - 1:.0f}"


def _worst(shares: list[float]) -> Interval:
    return exactly(max(shares, key=lambda share: abs(share - 1)))


def _range(values: list[float]) -> Interval:
    return Interval(sum(values) / len(values), min(values), max(values))


def _values_text(values: list[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)} to {max(values)}"
