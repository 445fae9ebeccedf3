"""Self-attention does not see order; positions bring it in, and seldom past the trained length."""

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
from regard.lab.intervals import Interval, difference, interval
from regard.models.base import ModelSpec

KINDS = ("none", "sinusoidal", "learned", "relative", "rotary", "alibi")
TIMES = (1, 2, 4)  # the trained length
SYMBOLS = 12
PAGES = 64  # rows of text, of the greatest length, that are scored


class Spec(Claim):
    number: ClassVar[int] = 5
    title: ClassVar[str] = "Self-attention does not see order"
    statement: ClassVar[str] = (
        "Self-attention is permutation equivariant, p(sa(X)) = sa(p(X)), and so blind to order; "
        "positions mend it. Sinusoids are hoped to extrapolate past the trained length and in "
        "practice do not; learned positions cannot."
    )
    experiment: ClassVar[str] = (
        "Words are permuted before and after bare self-attention, and an encoder with and without "
        "positions. Then two-layer models with each kind of position learn two things at one "
        "length and are asked at twice and four times that: an encoder, which of two symbols came "
        "first (by chance, half is right); a language model, to continue the bundled text, where "
        "the same held-out pages are read in windows of each length, so that longer ones show "
        "more and are harder only for what the model makes of unknown places. Learned positions "
        "have room for the greatest length, and are trained up to the first. A language model "
        "without positions is not blind to order, for its mask counts the words that it sees."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "bare": Criterion("p(sa(X)) less sa(p(X)), over sa(X), bare self-attention", at_most=1e-5),
        "encoder": Criterion("the same of an encoder without positions", at_most=1e-4),
        "placed": Criterion("the same with positions, the least of all kinds", at_least=0.01),
        "blind": Criterion("which came first: right without positions", at_most=0.6),
        "mended_by_sinusoids": Criterion("right with sinusoids", at_least=0.9),
        "mended_by_learning": Criterion("right with learned positions", at_least=0.9),
        "sinusoids_end": Criterion(
            "loss of text at 4 times the length less that at the length, sinusoids", at_least=0.1
        ),
        "learned_end": Criterion("the same, learned positions", at_least=0.1),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "length": 8,
        "dim": 32,
        "task_steps": 8,
        "text_steps": 8,
        "sentences": 500,
        "judged": 64,
    }

    length: int = Field(16, gt=2, description="the trained length, in words")
    dim: int = Field(64, gt=0, description="D of the models")
    task_steps: int = Field(200, gt=0, description="of training to tell which came first")
    text_steps: int = Field(400, gt=0, description="of training to continue text")
    judged: int = Field(400, gt=1, description="rows of the task that are scored")
    sentences: int = Field(8000, gt=0, description="of the bundled text to learn from")

    def gather(self, experiment: Experiment) -> Evidence:
        moved = [_moved(seed, self._settings()) for seed in range(self.seeds)]
        first: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        texts: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        with experiment.plan(self.seeds * len(KINDS) * (self.task_steps + self.text_steps)):
            for seed in range(self.seeds):
                for kind in KINDS:
                    first[kind].append(self._first(experiment, kind, seed))
                    texts[kind].append(self._text(experiment, kind, seed))
        return {"moved": moved, "first": first, "text": texts}

    def _settings(self) -> dict[str, Any]:
        """Of all models; the greatest length is known beforehand."""
        sizes = {"dim": self.dim, "heads": 4, "ffn_dim": 4 * self.dim, "layers": 2, "dropout": 0.0}
        return {**sizes, "max_length": max(TIMES) * self.length}

    def _first(self, experiment: Experiment, kind: str, seed: int) -> dict[str, float]:
        """How often the encoder is right, by length over the trained length."""
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
        right = {}
        for times in TIMES:
            rows = tasks.which_first(times * self.length, SYMBOLS, seed, -1, rows=self.judged)
            with torch.no_grad():
                right[str(times)] = float((logits(rows).argmax(-1) == rows.labels).float().mean())
        return right

    def _text(self, experiment: Experiment, kind: str, seed: int) -> dict[str, float]:
        """The loss on held-out text, by length of what is read over the trained length."""
        torch.manual_seed(seed)
        read = text.sentences(self.sentences)
        settings = {"kind": "language-model", "position": kind, **self._settings()}
        model = ModelSpec.model_validate(settings).build(len(read.words)).to(experiment.device)

        def loss(_: nn.Module, step: int) -> Tensor:
            rows = text.windows(read.train, self.length + 1, tasks.ROWS, seed, step)
            return _loss(model, rows.to(experiment.device))

        experiment.fit(model, loss, self.text_steps)
        longest = max(TIMES) * self.length
        page = read.held_out[: len(read.held_out) // longest * longest][: PAGES * longest]
        losses = {}
        for times in TIMES:
            with torch.no_grad():
                rows = page.view(-1, times * self.length).to(experiment.device)
                losses[str(times)] = float(_loss(model, rows))
        return losses

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        moved, right, losses = evidence["moved"], evidence["first"], evidence["text"]
        placed = [min(each[kind] for kind in KINDS if kind != "none") for each in moved]
        return {
            "bare": interval([each["bare"] for each in moved]),
            "encoder": interval([each["none"] for each in moved]),
            "placed": interval(placed),
            "blind": interval(_at(right["none"], 1)),
            "mended_by_sinusoids": interval(_at(right["sinusoidal"], 1)),
            "mended_by_learning": interval(_at(right["learned"], 1)),
            "sinusoids_end": difference(*(_at(losses["sinusoidal"], n) for n in (4, 1))),
            "learned_end": difference(*(_at(losses["learned"], n) for n in (4, 1))),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        by_length = [f"at {times * self.length}" for times in TIMES]
        moved = [
            [name, str(interval([each[key] for each in evidence["moved"]]))]
            for name, key in (
                ("bare self-attention", "bare"),
                *((f"encoder, {k}", k) for k in KINDS),
            )
        ]
        tables = {
            f"Which came first: right, trained at {self.length}": evidence["first"],
            f"Loss of held-out text, trained at {self.length}": evidence["text"],
        }
        return [
            Table("How far words permuted before and after differ", ["", "of the whole"], moved),
            *(
                Table(
                    title,
                    ["positions", *by_length],
                    [
                        [kind, *(str(interval(_at(seeds, times))) for times in TIMES)]
                        for kind, seeds in found.items()
                    ],
                )
                for title, found in tables.items()
            ),
            Plot("Which came first", "length", "right", self._lines(evidence["first"]), log_x=True),
            Plot("Text", "length read", "loss", self._lines(evidence["text"]), log_x=True),
        ]

    def _lines(
        self, found: Mapping[str, list[dict[str, float]]]
    ) -> dict[str, dict[float, Interval]]:
        return {
            kind: {float(times * self.length): interval(_at(seeds, times)) for times in TIMES}
            for kind, seeds in found.items()
        }


def _at(seeds: list[dict[str, float]], times: int) -> list[float]:
    return [each[str(times)] for each in seeds]


def _loss(model: nn.Module, rows: Tensor) -> Tensor:
    """The mean cross-entropy of each word given those before it."""
    return nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def _moved(seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """How far p(f(X)) and f(p(X)) are apart, over the size of f(X), for each f."""
    chance, length = generator(seed), settings["max_length"] // max(TIMES)
    order = torch.randperm(length, generator=chance)
    # Words of length about 1: longer ones would look at themselves alone, and nothing be moved.
    x = torch.randn(1, length, settings["dim"], generator=chance) / settings["dim"] ** 0.5
    ids = torch.randint(SYMBOLS, (1, length), generator=chance)
    apart = {"bare": _apart(self_attention, x, order)}
    for kind in KINDS:
        torch.manual_seed(seed)
        spec = ModelSpec.model_validate({"kind": "encoder", "position": kind, **settings})
        apart[kind] = _apart(spec.build(SYMBOLS), ids, order)
    return apart


def _apart(f: Callable[[Tensor], Tensor], x: Tensor, order: Tensor) -> float:
    after, before = f(x)[:, order], f(x[:, order])
    return float((after - before).norm() / after.norm())
