"""A causal mask lets all tokens be trained at once, without access to later tokens."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.masks import Full
from regard.lab import text
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import (
    Interval,
    difference,
    exactly,
    interval,
    proportion_difference,
    ratio,
)
from regard.models.base import ModelSpec
from regard.models.language_model import LanguageModel

ROWS = 32
TEST_ROWS = 32  # rows of held-out text that are read step by step, and rows that are sampled
VARIANTS = ("masked", "unmasked")
AT_ONCE, PREFIXES, CACHED = "all at once", "a pass for each prefix", "a cached step for each token"


class Spec(Claim):
    number: ClassVar[int] = 7
    title: ClassVar[str] = "A causal mask allows parallel training without access to later tokens"
    statement: ClassVar[str] = (
        "With scores set to −∞ for j > i, all tokens of a text are trained on at once and none has "
        "access to its target; without the mask the training loss collapses and generation does "
        "not improve."
    )
    experiment: ClassVar[str] = (
        "The same language model, from the same weights, is trained on the bundled text with the "
        "causal mask and without any mask. Both are then used as in generation, where later tokens "
        "do not exist: held-out text is read token by token, each prefix in a pass of its own, and "
        "text is sampled from the model; the share of its word pairs that occur in the training "
        "text is counted. Finally the gradient of one batch is computed in one masked pass, in one "
        "pass for each prefix, and by one cached step for each token: the gradients are compared "
        "and timed."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "unseen": Criterion("change of earlier outputs when the last token changes", at_most=0.0),
        "collapses": Criterion("training loss, unmasked over masked", at_most=0.5),
        "predicts": Criterion(
            "loss token by token on held-out text, unmasked minus masked", at_least=0.0
        ),
        "writes": Criterion(
            "share of generated pairs that occur in the text, unmasked minus masked", at_most=0.0
        ),
        "same": Criterion(
            "relative difference of the gradients, one pass and by prefixes", at_most=1e-3
        ),
        "faster": Criterion("time by prefixes over one pass", at_least=2.0),
        "faster_than_cached": Criterion("time by cached steps over one pass", at_least=2.0),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "length": 12,
        "dim": 32,
        "steps": 25,
        "sentences": 500,
        "rounds": 3,
    }

    length: int = Field(32, gt=2, description="tokens of a row")
    dim: int = Field(64, gt=0, description="D of the model")
    steps: int = Field(500, gt=0, description="training steps")
    sentences: int = Field(8000, gt=0, description="training sentences of the bundled text")
    rounds: int = Field(7, gt=0, description="timing rounds")

    def gather(self, experiment: Experiment) -> Evidence:
        corpus = text.sentences(self.sentences)
        known_pairs = set(pairwise(corpus.train.tolist()))
        seeds: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
        units = self.seeds * 2 * (self.steps + 2 * self.length) + 3 * self.rounds
        with experiment.plan(units):
            for seed in range(self.seeds):
                for variant in VARIANTS:
                    model = self._model(experiment, len(corpus.vocabulary), seed)
                    with _attend_to_all(model, variant == "unmasked"):
                        curve = self._learn(experiment, model, corpus.train, seed)
                        loss = self._held_out_loss(experiment, model, corpus.held_out)
                        samples = self._sample(experiment, model, corpus.held_out, seed)
                    pairs = [pair for row in samples for pair in pairwise(row)]
                    exist = sum(pair in known_pairs for pair in pairs) / len(pairs)
                    result = {"curve": curve, "loss": loss, "exist": exist, "changed": None}
                    if variant == "masked":
                        result["changed"] = _changed(model, self._page(experiment, corpus.held_out))
                    seeds[variant].append(result)
            model = self._model(experiment, len(corpus.vocabulary), 0)
            passes = {
                name: _Pass(model, self._page(experiment, corpus.train), name) for name in _PASSES
            }
            gradients = {name: compute() for name, compute in passes.items()}
            seconds = experiment.seconds(passes, self.rounds)
        once = gradients[AT_ONCE]
        differences = {
            name: float((gradient - once).norm() / once.norm())
            for name, gradient in gradients.items()
        }
        return {"seeds": seeds, "seconds": seconds, "differences": differences}

    def _model(self, experiment: Experiment, vocabulary: int, seed: int) -> LanguageModel:
        torch.manual_seed(seed)
        sizes = {"dim": self.dim, "heads": 4, "ffn_dim": 4 * self.dim, "layers": 2, "dropout": 0.0}
        settings = {"kind": "language-model", "max_length": self.length, **sizes}
        model = ModelSpec.model_validate(settings).build(vocabulary).to(experiment.device)
        assert isinstance(model, LanguageModel)
        return model

    def _page(self, experiment: Experiment, ids: Tensor) -> Tensor:
        rows = min(TEST_ROWS, len(ids) // (self.length + 1))
        return text.pages(ids, self.length + 1, rows).to(experiment.device)

    def _learn(
        self, experiment: Experiment, model: LanguageModel, ids: Tensor, seed: int
    ) -> list[float]:
        def loss(_: nn.Module, step: int) -> Tensor:
            rows = text.windows(ids, self.length + 1, ROWS, seed, step).to(experiment.device)
            return _loss(model(rows[:, :-1]), rows[:, 1:])

        return experiment.fit(model, loss, self.steps)

    @torch.no_grad()
    def _held_out_loss(self, experiment: Experiment, model: LanguageModel, ids: Tensor) -> float:
        """Return the mean loss of each token, each given its prefix in a pass of its own."""
        page, losses = self._page(experiment, ids), []
        for end in range(1, page.size(1)):
            losses.append(_loss(model(page[:, :end])[:, -1], page[:, end]))
            experiment.advance(1)
        return float(torch.stack(losses).mean())

    @torch.no_grad()
    def _sample(
        self, experiment: Experiment, model: LanguageModel, text_ids: Tensor, seed: int
    ) -> list[list[int]]:
        """Sample text token by token from the first token of each row of a page."""
        ids, rng = self._page(experiment, text_ids)[:, :1], generator(seed)
        for _ in range(self.length):
            probs = model(ids[:, -self.length :])[:, -1].softmax(-1).cpu()
            ids = torch.cat([ids, probs.multinomial(1, generator=rng).to(ids)], 1)
            experiment.advance(1)
        rows: list[list[int]] = ids.tolist()
        return rows

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        masked, unmasked = (evidence["seeds"][variant] for variant in VARIANTS)
        ends = [[run["curve"][-1] for run in seeds] for seeds in (unmasked, masked)]
        exist = [[run["exist"] for run in runs] for runs in (unmasked, masked)]
        seconds = evidence["seconds"]
        return {
            "unseen": exactly(max(run["changed"] for run in masked)),
            "collapses": ratio(*ends),
            "predicts": difference(*([run["loss"] for run in runs] for runs in (unmasked, masked))),
            # By rows: the pairs of a row are not independent.
            "writes": proportion_difference(exist[0], exist[1], TEST_ROWS * len(masked)),
            "same": exactly(evidence["differences"][PREFIXES]),
            "faster": ratio(seconds[PREFIXES], seconds[AT_ONCE]),
            "faster_than_cached": ratio(seconds[CACHED], seconds[AT_ONCE]),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        seeds, seconds = evidence["seeds"], evidence["seconds"]
        losses = [
            [
                variant,
                str(interval([run["curve"][-1] for run in seeds[variant]])),
                str(interval([run["loss"] for run in seeds[variant]])),
                str(interval([run["exist"] for run in seeds[variant]])),
            ]
            for variant in VARIANTS
        ]
        timed = [
            [name, str(interval(seconds[name])), str(ratio(seconds[name], seconds[AT_ONCE]))]
            for name in _PASSES
        ]
        curves = {
            variant: {
                float(round((index + 1) * self.steps / len(seeds[variant][0]["curve"]))): interval(
                    values
                )
                for index, values in enumerate(
                    zip(*(run["curve"] for run in seeds[variant]), strict=True)
                )
            }
            for variant in VARIANTS
        }
        head = ["", "training loss", "held-out loss, token by token", "share of pairs in the text"]
        return [
            Table("Losses and generated text", head, losses),
            Table(f"Gradient of {self.length} tokens", ["", "seconds", "over one pass"], timed),
            Plot("Training with the mask and without", "step", "training loss", curves),
        ]


class _Pass:
    """One method to compute the gradient of a page; call it to get the gradient."""

    def __init__(self, model: LanguageModel, page: Tensor, method: str) -> None:
        self.model, self.page, self.method = model, page, method

    def __call__(self) -> Tensor:
        self.model.zero_grad(set_to_none=True)
        _PASSES[self.method](self.model, self.page)
        return torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None])


def _at_once(model: LanguageModel, page: Tensor) -> None:
    _loss(model(page[:, :-1]), page[:, 1:]).backward()


def _by_prefixes(model: LanguageModel, page: Tensor) -> None:
    length = page.size(1) - 1
    for end in range(1, length + 1):
        loss = _loss(model(page[:, :end])[:, -1], page[:, end]) / length
        loss.backward()


def _by_steps(model: LanguageModel, page: Tensor) -> None:
    state, logits = model.start(), []
    for position in range(page.size(1) - 1):
        step_logits, state = model.step(page[:, position], state)
        logits.append(step_logits)
    _loss(torch.stack(logits, 1), page[:, 1:]).backward()


_PASSES = {AT_ONCE: _at_once, PREFIXES: _by_prefixes, CACHED: _by_steps}


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


@torch.no_grad()
def _changed(model: LanguageModel, page: Tensor) -> float:
    """Return the largest change of earlier outputs when the last token changes."""
    other = page.clone()
    other[:, -1] = (other[:, -1] + 1) % model.output.out_features
    return float((model(page) - model(other))[:, :-1].abs().max())


@contextmanager
def _attend_to_all(model: nn.Module, unmasked: bool) -> Iterator[None]:
    """Give each attention a mask that allows all pairs, if unmasked."""
    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs: (*inputs[:3], replace(inputs[3], pattern=Full()), inputs[4])
        )
        for module in model.modules()
        if isinstance(module, Attention) and unmasked
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
