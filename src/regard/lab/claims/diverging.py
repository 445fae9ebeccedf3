"""Heads diverge from random initialization: by how much, and up to how many heads help."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.multi_head import MultiHead
from regard.data.bundled import Pair
from regard.data.bundled.splits import words
from regard.data.sources.grammar import Spec as Grammar
from regard.insight.heads.similarity import divergences
from regard.insight.watch import watch
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, interval
from regard.models.base import ModelSpec

ROWS = 64  # sentences in a batch
COMPARED = 64  # sentences that heads are compared on
PAD, BOUNDARY = 0, 1  # padding; start and end of a sentence
RATE = 3e-3
WHEN = ("before", "after")
SELECTION_SEEDS = 3  # the first seeds select the best of the smaller numbers; the others judge it


class Spec(Claim):
    number: ClassVar[int] = 11
    title: ClassVar[str] = "Heads diverge from random initialization, until more do not help"
    statement: ClassVar[str] = (
        "Randomly initialized heads diverge in training; the lecture asks by how much, and at "
        "which number of heads more of them stop helping."
    )
    experiment: ClassVar[str] = (
        "Language models with equal sizes and parameter counts and 1 to 16 heads per layer are "
        "trained on the English side of the bundled corpus, word by word, and evaluated on "
        "held-out sentences. Before and after training, every two heads of a layer are compared on "
        "the same sentences: by the Jensen–Shannon divergence of their attention (0 bits: equal, 1 "
        "bit: disjoint) and by its cosine. For comparison, models are trained whose heads start as "
        "copies of one another. The best of the smaller numbers of heads is selected by the loss "
        "with the first three seeds and judged by the loss with the others."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "divergence": Criterion(
            "bits between two heads, after minus before training", at_least=0.05
        ),
        "cosine": Criterion("cosine of two heads, after minus before training", at_most=-0.05),
        "helps": Criterion("loss, one head minus the middle number, nats per word", at_least=0.0),
        "stops": Criterion(
            "loss on held-out seeds, best of the smaller numbers by the other seeds minus the most "
            "heads, nats per word",
            at_most=0.01,
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "heads": (1, 2, 4),
        "dim": 32,
        "pairs": 500,
        "held_out": 100,
        "steps": 30,
        "seeds": 2,
    }

    seeds: int = Field(6, gt=0, description="number of repetitions; the first three only select")
    heads: tuple[int, ...] = Field(
        (1, 2, 4, 8, 16), min_length=3, description="numbers of heads, fewest first"
    )
    dim: int = Field(64, gt=0, description="D, for every number of heads")
    layers: int = Field(2, gt=0, description="layers of each model")
    pairs: int = Field(20_000, gt=0, description="training sentences")
    held_out: int = Field(1000, gt=0, description="test sentences")
    steps: int = Field(500, gt=0, description="training steps")

    def gather(self, experiment: Experiment) -> Evidence:
        corpus = Grammar(train_size=self.pairs, dev_size=self.held_out, pronouns_size=1).corpus()
        vocabulary = sorted({word for pair in corpus.train for word in words(pair.english)})
        ids = {word: BOUNDARY + 1 + index for index, word in enumerate(vocabulary)}
        train, held_out = (_rows(part, ids) for part in (corpus.train, corpus.dev))
        trained = []
        arms = [(heads, False) for heads in self.heads] + [(self._middle, True)]
        with experiment.plan(self.seeds * len(arms) * self.steps):
            for seed in range(self.seeds):
                for heads, copies in arms:
                    model = self._model(len(vocabulary) + BOUNDARY + 1, seed, heads).to(
                        experiment.device
                    )
                    if copies:
                        _copy_first_head(model)
                    results = self._trained(experiment, model, seed, train, held_out)
                    trained.append({"seed": seed, "heads": heads, "copies": copies, **results})
        return {"trained": trained}

    @property
    def _middle(self) -> int:
        return self.heads[len(self.heads) // 2]

    def _model(self, vocabulary_size: int, seed: int, heads: int) -> nn.Module:
        torch.manual_seed(seed)
        settings: dict[str, Any] = {"heads": heads, "dim": self.dim, "ffn_dim": 2 * self.dim}
        settings |= {"layers": self.layers, "dropout": 0.0, "max_length": 64}
        return ModelSpec.model_validate({"kind": "language-model", **settings}).build(
            vocabulary_size
        )

    def _trained(
        self, experiment: Experiment, model: nn.Module, seed: int, train: Tensor, held_out: Tensor
    ) -> dict[str, Any]:
        def loss(model: nn.Module, step: int) -> Tensor:
            indices = torch.randint(len(train), (ROWS,), generator=generator(seed, step))
            return _loss(model, train[indices].to(experiment.device))

        compared = held_out[:: max(1, len(held_out) // COMPARED)].to(experiment.device)
        before = _similarity(model, compared)
        experiment.fit(model, loss, self.steps, RATE)
        after = _similarity(model, compared)
        with torch.no_grad():
            held_out_loss = float(_loss(model, held_out.to(experiment.device)))
        return {"loss": held_out_loss, "before": before, "after": after}

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        loss = {heads: [run["loss"] for run in self._runs(evidence, heads)] for heads in self.heads}
        selection = {
            heads: statistics.fmean(loss[heads][:SELECTION_SEEDS]) for heads in self.heads[:-1]
        }
        best = min(selection, key=selection.__getitem__)
        held_out = [loss[heads][SELECTION_SEEDS:] for heads in (best, self.heads[-1])]
        return {
            "divergence": self._change(evidence, "bits"),
            "cosine": self._change(evidence, "cosine"),
            "helps": difference(loss[self.heads[0]], loss[self._middle]),
            "stops": difference(*held_out),
        }

    def repetitions(self, evidence: Evidence) -> int:
        return max(0, self.seeds - SELECTION_SEEDS)

    def _change(self, evidence: Evidence, measure: str) -> Interval:
        """Return the change of a measure in training by seed, the mean over numbers of heads."""
        arms = [self._runs(evidence, heads) for heads in self.heads if heads > 1]
        changes = [[run["after"][measure] - run["before"][measure] for run in arm] for arm in arms]
        return interval([statistics.fmean(by_seed) for by_seed in zip(*changes, strict=True)])

    def show(self, evidence: Evidence) -> list[Figure]:
        arms = [(str(heads), self._runs(evidence, heads)) for heads in self.heads]
        arms.append(
            (f"{self._middle}, initialized as copies", self._runs(evidence, self._middle, True))
        )
        rows = [
            [name, str(interval([run["loss"] for run in arm]))]
            + [
                str(interval([run[when][measure] for run in arm])) if arm[0]["heads"] > 1 else "–"
                for measure in ("bits", "cosine")
                for when in WHEN
            ]
            for name, arm in arms
        ]
        head = ["heads", "loss (nats per word)", "divergence (bits) before", "after"]
        losses = {
            "loss": {
                float(heads): interval([run["loss"] for run in self._runs(evidence, heads)])
                for heads in self.heads
            }
        }
        divergence = {
            when: {
                float(heads): interval([run[when]["bits"] for run in self._runs(evidence, heads)])
                for heads in self.heads
                if heads > 1
            }
            for when in WHEN
        }
        return [
            Table(f"Size {self.dim}", [*head, "cosine before", "after"], rows),
            Plot("Loss by number of heads", "heads", "nats per word", losses, log_x=True),
            Plot("Divergence of two heads of a layer", "heads", "bits", divergence, log_x=True),
        ]

    def _runs(self, evidence: Evidence, heads: int, copies: bool = False) -> list[dict[str, Any]]:
        return [
            run for run in evidence["trained"] if (run["heads"], run["copies"]) == (heads, copies)
        ]


def _rows(pairs: Sequence[Pair], ids: Mapping[str, int]) -> Tensor:
    """Return English sentences as word ids between marks, padded to one length: (N, T)."""
    rows = [
        torch.tensor([BOUNDARY, *map(ids.__getitem__, words(pair.english)), BOUNDARY])
        for pair in pairs
    ]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def _loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the mean loss over the words that are not padding."""
    logits = model(ids[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


@torch.no_grad()
def _similarity(model: nn.Module, ids: Tensor) -> dict[str, float]:
    """Return the mean divergence and cosine of every two heads of a layer."""
    with watch(model, {"weights"}) as seen:
        model(ids[:, :-1])
    token_mask = ids[:, 1:] != PAD
    token_mask[:, 0] = False  # the first token attends only to itself, in every head
    bits, cosines = [], []
    for name in seen.names():
        weights = seen.weights(name).transpose(0, 1)[:, token_mask].cpu()  # (H, N, S)
        pairs = np.triu_indices(len(weights), 1)
        unit = nn.functional.normalize(weights, dim=-1).flatten(1)
        bits += (divergences(weights).numpy()[pairs] / weights.size(1)).tolist()
        cosines += ((unit @ unit.T).numpy()[pairs] / weights.size(1)).tolist()
    if not bits:
        return {"bits": 0.0, "cosine": 1.0}  # one head equals itself
    return {"bits": statistics.fmean(bits), "cosine": statistics.fmean(cosines)}


@torch.no_grad()
def _copy_first_head(model: nn.Module) -> None:
    """Copy the first head's queries, keys, values and outputs to every head of an attention."""
    for module in model.modules():
        if isinstance(module, MultiHead):
            for linear in (module.w_q, module.w_k, module.w_v):
                first = linear.weight[: module.head_dim]
                linear.weight.copy_(first.repeat(module.heads, 1))
            module.w_o.weight.copy_(module.w_o.weight[:, : module.head_dim].repeat(1, module.heads))
