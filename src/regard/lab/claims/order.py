"""Self-attention is blind to order; positions encode it, but seldom beyond the trained length."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.soft_lookup import self_attention
from regard.lab import tasks, text
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, interval, proportion
from regard.models.base import ModelSpec

KINDS = ("none", "sinusoidal", "learned", "relative", "rotary", "alibi")
FACTORS = (1, 2, 4)  # test lengths over the trained length
SYMBOLS = 12
TEXT_ROWS = 64  # test rows of text of the greatest length


class Spec(Claim):
    number: ClassVar[int] = 5
    title: ClassVar[str] = "Self-attention is blind to order"
    statement: ClassVar[str] = (
        "Self-attention is permutation equivariant, p(sa(X)) = sa(p(X)), and so blind to order; "
        "position encodings add order. Sinusoids were hoped to extrapolate beyond the trained "
        "length and in practice do not; learned positions cannot."
    )
    experiment: ClassVar[str] = (
        "Tokens are permuted before and after self-attention without projections, and an encoder "
        "with and without positions. Then two-layer models with each kind of position are trained "
        "at one length on two tasks, and tested at two and four times that length: an encoder, to "
        "predict which of two symbols came first (chance: one half); and a language model on the "
        "bundled text, where the same held-out pages are read in windows of each length, so that "
        "longer windows have more context and are harder only because of unknown positions. "
        "Learned positions have room for the greatest length, and are trained up to the first. A "
        "language model without positions is not blind to order, because the causal mask gives "
        "each token a different number of tokens to attend to."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "bare": Criterion(
            "relative difference of p(sa(X)) and sa(p(X)), self-attention without projections",
            at_most=1e-5,
        ),
        "encoder": Criterion("relative difference, encoder without positions", at_most=1e-4),
        "positions": Criterion(
            "relative difference, encoder with positions, smallest over kinds", at_least=0.01
        ),
        "blind": Criterion(
            "accuracy on which came first, no positions",
            at_most=0.6,
            by_construction="without positions, both orders have the same output",
        ),
        "sinusoids": Criterion("accuracy on which came first, sinusoidal", at_least=0.9),
        "learned": Criterion("accuracy on which came first, learned", at_least=0.9),
        "sinusoids_end": Criterion(
            "text loss at 4 times the trained length minus at it, sinusoidal", at_least=0.1
        ),
        "learned_end": Criterion(
            "text loss at 4 times the trained length minus at it, learned", at_least=0.1
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 1,
        "length": 8,
        "dim": 16,
        "task_steps": 4,
        "text_steps": 4,
        "sentences": 300,
        "test_rows": 32,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {"judged": "test_rows"}

    length: int = Field(16, gt=2, description="trained length in tokens")
    dim: int = Field(64, gt=0, description="D of the models")
    task_steps: int = Field(200, gt=0, description="training steps on which came first")
    text_steps: int = Field(400, gt=0, description="training steps on text")
    test_rows: int = Field(400, gt=1, description="test rows of the task")
    sentences: int = Field(8000, gt=0, description="training sentences of the bundled text")

    def gather(self, experiment: Experiment) -> Evidence:
        differences = [
            _permutation_differences(seed, self._settings()) for seed in range(self.seeds)
        ]
        first: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        texts: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        with experiment.plan(self.seeds * len(KINDS) * (self.task_steps + self.text_steps)):
            for seed in range(self.seeds):
                for kind in KINDS:
                    first[kind].append(self._first(experiment, kind, seed))
                    texts[kind].append(self._text(experiment, kind, seed))
        return {"permuted": differences, "first": first, "text": texts}

    def _settings(self) -> dict[str, Any]:
        """Return the settings of all models, with room for the greatest length."""
        sizes = {"dim": self.dim, "heads": 4, "ffn_dim": 4 * self.dim, "layers": 2, "dropout": 0.0}
        return {**sizes, "max_length": max(FACTORS) * self.length}

    def _first(self, experiment: Experiment, kind: str, seed: int) -> dict[str, float]:
        """Return the accuracy of the encoder, by length over the trained length."""
        torch.manual_seed(seed)
        settings = {"kind": "classifier", "position": kind, **self._settings()}
        model = ModelSpec.model_validate(settings).build(SYMBOLS).to(experiment.device)

        def logits(rows: tasks.LabeledRows) -> Tensor:
            ids = rows.ids.to(experiment.device)
            scores: Tensor = model(ids, torch.ones_like(ids, dtype=torch.bool))
            return scores.cpu()

        def loss(_: nn.Module, step: int) -> Tensor:
            rows = tasks.which_first(self.length, SYMBOLS, seed, step)
            return nn.functional.cross_entropy(logits(rows), rows.labels)

        experiment.fit(model, loss, self.task_steps)
        accuracies = {}
        for factor in FACTORS:
            rows = tasks.which_first(factor * self.length, SYMBOLS, seed, -1, rows=self.test_rows)
            with torch.no_grad():
                accuracies[str(factor)] = float(
                    (logits(rows).argmax(-1) == rows.labels).float().mean()
                )
        return accuracies

    def _text(self, experiment: Experiment, kind: str, seed: int) -> dict[str, float]:
        """Return the loss on held-out text, by window length over the trained length."""
        torch.manual_seed(seed)
        corpus = text.sentences(self.sentences)
        settings = {"kind": "language-model", "position": kind, **self._settings()}
        model = (
            ModelSpec.model_validate(settings).build(len(corpus.vocabulary)).to(experiment.device)
        )

        def loss(_: nn.Module, step: int) -> Tensor:
            rows = text.windows(corpus.train, self.length + 1, tasks.ROWS, seed, step)
            return _loss(model, rows.to(experiment.device))

        experiment.fit(model, loss, self.text_steps)
        longest = max(FACTORS) * self.length
        page = corpus.held_out[: len(corpus.held_out) // longest * longest][: TEXT_ROWS * longest]
        losses = {}
        for factor in FACTORS:
            with torch.no_grad():
                rows = page.view(-1, factor * self.length).to(experiment.device)
                losses[str(factor)] = float(_loss(model, rows))
        return losses

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        differences, accuracies, losses = evidence["permuted"], evidence["first"], evidence["text"]
        with_positions = [
            min(seed[kind] for kind in KINDS if kind != "none") for seed in differences
        ]
        return {
            "bare": interval([seed["bare"] for seed in differences]),
            "encoder": interval([seed["none"] for seed in differences]),
            "positions": interval(with_positions),
            "blind": self._accuracy(accuracies["none"]),
            "sinusoids": self._accuracy(accuracies["sinusoidal"]),
            "learned": self._accuracy(accuracies["learned"]),
            "sinusoids_end": difference(*(_at(losses["sinusoidal"], n) for n in (4, 1))),
            "learned_end": difference(*(_at(losses["learned"], n) for n in (4, 1))),
        }

    def _accuracy(self, by_seed: list[dict[str, float]]) -> Interval:
        """Return the accuracy at the trained length."""
        return proportion(_at(by_seed, 1), self.test_rows * len(by_seed))

    def show(self, evidence: Evidence) -> list[Figure]:
        by_length = [f"at {factor * self.length}" for factor in FACTORS]
        differences = [
            [name, str(interval([seed[key] for seed in evidence["permuted"]]))]
            for name, key in (
                ("self-attention without projections", "bare"),
                *((f"encoder, {k}", k) for k in KINDS),
            )
        ]
        tables = {
            f"Which came first: accuracy, trained at {self.length}": evidence["first"],
            f"Loss on held-out text, trained at {self.length}": evidence["text"],
        }
        return [
            Table("Permutation before and after", ["", "relative difference"], differences),
            *(
                Table(
                    title,
                    ["positions", *by_length],
                    [
                        [kind, *(str(interval(_at(seeds, factor))) for factor in FACTORS)]
                        for kind, seeds in by_kind.items()
                    ],
                )
                for title, by_kind in tables.items()
            ),
            Plot(
                "Which came first", "length", "accuracy", self._lines(evidence["first"]), log_x=True
            ),
            Plot("Text", "window length", "loss", self._lines(evidence["text"]), log_x=True),
        ]

    def _lines(
        self, by_kind: Mapping[str, list[dict[str, float]]]
    ) -> dict[str, dict[float, Interval]]:
        return {
            kind: {float(factor * self.length): interval(_at(seeds, factor)) for factor in FACTORS}
            for kind, seeds in by_kind.items()
        }


def _at(seeds: list[dict[str, float]], factor: int) -> list[float]:
    return [by_length[str(factor)] for by_length in seeds]


def _loss(model: nn.Module, rows: Tensor) -> Tensor:
    """Return the mean cross-entropy of each token given its prefix."""
    return nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def _permutation_differences(seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """Return the relative difference of p(f(X)) and f(p(X)) for each f."""
    rng, length = generator(seed), settings["max_length"] // max(FACTORS)
    order = torch.randperm(length, generator=rng)
    # Vectors of norm about 1: longer ones would attend to themselves only.
    x = torch.randn(1, length, settings["dim"], generator=rng) / settings["dim"] ** 0.5
    ids = torch.randint(SYMBOLS, (1, length), generator=rng)
    differences = {"bare": _relative_difference(self_attention, x, order)}
    for kind in KINDS:
        torch.manual_seed(seed)
        spec = ModelSpec.model_validate({"kind": "encoder", "position": kind, **settings})
        differences[kind] = _relative_difference(spec.build(SYMBOLS), ids, order)
    return differences


def _relative_difference(f: Callable[[Tensor], Tensor], x: Tensor, order: Tensor) -> float:
    after, before = f(x)[:, order], f(x[:, order])
    return float((after - before).norm() / after.norm())
