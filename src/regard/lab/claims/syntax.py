"""Tree positions help where syntax decides."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.data.batches.base import pad
from regard.data.records import Record
from regard.data.sources.agreement import Spec as Agreement
from regard.errors import DataError
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Table
from regard.lab.intervals import Interval, interval, proportion_difference
from regard.models.base import ModelSpec, parameter_count
from regard.positions.trees import Trees

# For each model: its positions, and whether its trees are those of the sentences.
ARMS: Mapping[str, tuple[Any, bool]] = {
    "linear": ("sinusoidal", True),
    "tree and linear": ({"kind": "syntax"}, True),
    "tree only": ({"kind": "syntax", "linear": "none"}, True),
    "random tree and linear": ({"kind": "syntax"}, False),
}
LINEAR, BOTH, ALONE, RANDOM = ARMS
NUMBERS = ("Sing", "Plur")
BLANK, NOUNS, WORDS = 1, 2, 4  # generated sentences: the verb, nouns by number, other words
OTHERS = 8  # other words
ROWS = 32  # rows in a batch
MAX_WORDS = 5000  # most frequent words of a treebank; any other is 0
TEST_STEP = 10**6  # batches from this step on are for testing


class Row(NamedTuple):
    """A sentence whose verb is masked."""

    ids: Sequence[int]
    heads: Sequence[int]
    plural: int
    attracted: bool  # is there a misleading noun of the other number?


Pick = Callable[[int, int], Sequence[Row]]  # rows of a step


class Spec(Claim):
    number: ClassVar[int] = 16
    title: ClassVar[str] = "Tree positions help where syntax decides"
    statement: ClassVar[str] = (
        "Positions need not be linear: depth in the dependency tree and distance in it, besides "
        "linear positions, tell a model which token depends on which."
    )
    experiment: ClassVar[str] = (
        "A two-layer classifier predicts the number of a masked verb, singular or plural, which is "
        "that of its subject. With a treebank (train, test) the sentences are real and the trees "
        "are annotated; without, they are generated: the subject is just before the verb in half "
        "of them and anywhere else in the others, and only the tree tells which noun it is. Equal "
        "models are trained on the same rows with sinusoidal positions, with tree and sinusoidal "
        "positions, with tree positions only, and, as a control for the additional parameters, "
        "with random trees. Attraction sentences have a noun of the other number between subject "
        "and verb (generated ones: just before the verb)."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "gain": Criterion("accuracy, tree and linear minus linear", at_least=0.0),
        "attracted": Criterion(
            "accuracy on attraction sentences, tree and linear minus linear", at_least=0.0
        ),
        "random": Criterion("accuracy, random trees minus linear", at_most=0.02),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "length": 6,
        "dim": 32,
        "steps": 30,
        "test_sentences": 200,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {"judged": "test_sentences"}

    train: Path | None = Field(None, description="training treebank, CoNLL-U")
    test: Path | None = Field(None, description="test treebank, CoNLL-U")
    length: int = Field(12, gt=2, description="words of a generated sentence")
    dim: int = Field(64, gt=0, description="D of the models")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the models")
    steps: int = Field(400, gt=0, description="training steps of 32 sentences")
    rate: float = Field(0.003, gt=0, description="learning rate")
    test_sentences: int = Field(10_000, gt=1, description="generated test sentences")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.train is None) != (self.test is None):
            raise ValueError("train and test: give both treebanks, or neither")
        return self

    def gather(self, experiment: Experiment) -> Evidence:
        if self.train is None or self.test is None:
            vocabulary, pick = WORDS + OTHERS, _generator(self.length)
            tested = pick(TEST_STEP, self.test_sentences)
        else:
            with experiment.report.busy("Reading the treebanks …"):
                train_rows, tested, vocabulary = _treebanks(self.train, self.test)
            pick = _sampler(train_rows)
        runs: list[dict[str, Any]] = []
        with experiment.plan(self.seeds * len(ARMS) * self.steps):
            for seed in range(self.seeds):
                for arm in ARMS:
                    result = self._train(experiment, arm, seed, vocabulary, pick, tested)
                    runs.append({"arm": arm, "seed": seed, **result})
        attracted = [row.attracted for row in tested]
        plural = sum(row.plural for row in tested) / len(tested)
        counts = {"tested": len(tested), "attracted": sum(attracted), "plural": plural}
        return {"runs": runs, **counts}

    def _train(
        self,
        experiment: Experiment,
        arm: str,
        seed: int,
        vocabulary: int,
        pick: Pick,
        tested: Sequence[Row],
    ) -> dict[str, float]:
        torch.manual_seed(seed)
        position, own_trees = ARMS[arm]
        settings: dict[str, Any] = {"kind": "classifier", "pooling": "attention", "layers": 2}
        settings |= {"dim": self.dim, "heads": 4, "ffn_dim": 2 * self.dim, "dropout": self.dropout}
        spec = ModelSpec.model_validate({**settings, "position": position})
        model = spec.build(vocabulary).to(experiment.device)

        def logits(rows: Sequence[Row]) -> Tensor:
            ids, token_mask = pad([row.ids for row in rows], 0)
            inputs: list[Any] = [ids.to(experiment.device), token_mask.to(experiment.device)]
            if spec.needs_trees:
                trees, _ = pad([row.heads if own_trees else _random_tree(row) for row in rows], 0)
                word_indices = torch.arange(ids.size(1)).expand_as(ids)
                inputs.append(
                    Trees(word_indices.to(experiment.device), trees.to(experiment.device))
                )
            scores: Tensor = model(*inputs)
            return scores

        def loss(_: nn.Module, step: int) -> Tensor:
            rows = pick((seed + 1) * 10_000 + step, ROWS)
            labels = torch.tensor([row.plural for row in rows], device=experiment.device)
            return nn.functional.cross_entropy(logits(rows), labels)

        losses = experiment.fit(model, loss, self.steps, self.rate)
        with torch.no_grad():
            parts = [logits(tested[at : at + 100]).argmax(-1) for at in range(0, len(tested), 100)]
        correct = torch.cat(parts).cpu() == torch.tensor([row.plural for row in tested])
        attracted = torch.tensor([row.attracted for row in tested])
        return {
            "accuracy": float(correct.float().mean()),
            "attraction_accuracy": float(correct[attracted].float().mean()),
            "loss": losses[-1],
            "parameters": parameter_count(model),
        }

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        def minus_linear(arm: str, name: str, tested: int) -> Interval:
            # All seeds have the same test sentences.
            arms = (_column(evidence, arm, name), _column(evidence, LINEAR, name))
            return proportion_difference(*arms, tested)

        return {
            "gain": minus_linear(BOTH, "accuracy", evidence["tested"]),
            "attracted": minus_linear(BOTH, "attraction_accuracy", evidence["attracted"]),
            "random": minus_linear(RANDOM, "accuracy", evidence["tested"]),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        tested, attracted, plural = (evidence[name] for name in ("tested", "attracted", "plural"))
        columns = ("accuracy", "attraction_accuracy", "loss", "parameters")
        rows = [
            [arm, *(str(interval(_column(evidence, arm, name))) for name in columns)]
            for arm in ARMS
        ]
        kind = (
            "generated sentences" if self.test is None else f"sentences of {self.test.parent.name}"
        )
        majority = max(plural, 1 - plural)
        title = (
            f"Accuracy on {tested:,} {kind}, {attracted:,} of them attraction sentences; the "
            f"more frequent number alone: {majority:.1%}"
        )
        return [
            Table(title, ["positions", "accuracy", "attraction", "last loss", "parameters"], rows)
        ]


def _column(evidence: Evidence, arm: str, name: str) -> list[float]:
    return [row[name] for row in evidence["runs"] if row["arm"] == arm]


def _generator(length: int) -> Pick:
    """Generate sentences: a verb, its subject below it, and all other words below the subject."""

    def generate(rng: Random) -> Row:
        verb = rng.randrange(1, length)
        others = [position for position in range(length) if position != verb]
        subject = verb - 1 if rng.random() < 0.5 else rng.choice(others)
        ids = [_noun(rng) if rng.random() < 2 / 3 else _other(rng) for _ in range(length)]
        ids[verb], ids[subject] = BLANK, _noun(rng)
        heads, parents = [verb] * length, [subject]
        for position in rng.sample(others, len(others)):
            if position != subject:
                heads[position] = rng.choice(parents)
                parents.append(position)
        other_number = {NOUNS: NOUNS + 1, NOUNS + 1: NOUNS}[ids[subject]]
        return Row(ids, heads, ids[subject] - NOUNS, ids[verb - 1] == other_number)

    def pick(step: int, count: int) -> Sequence[Row]:
        rng = Random(step)
        return [generate(rng) for _ in range(count)]

    return pick


def _noun(rng: Random) -> int:
    return NOUNS + rng.randrange(2)


def _other(rng: Random) -> int:
    return WORDS + rng.randrange(OTHERS)


def _random_tree(row: Row) -> list[int]:
    """Return a random tree of as many words, always the same for a sentence."""
    rng, size = Random(str(row.ids)), len(row.ids)
    order = rng.sample(range(size), size)
    heads = [order[0]] * size
    for index in range(1, size):
        heads[order[index]] = order[rng.randrange(index)]
    return heads


def _treebanks(train: Path, test: Path) -> tuple[list[Row], list[Row], int]:
    """Return training rows, test rows and the vocabulary size."""
    train_records, test_records = (list(Agreement(path=path).records()) for path in (train, test))
    attracted = {record.location for record in Agreement(path=test, attracted=True).records()}
    counts = Counter(word for record in train_records for word in _words(record))
    ids = {word: index for index, (word, _) in enumerate(counts.most_common(MAX_WORDS), start=1)}

    def rows(records: Sequence[Any], path: Path) -> list[Row]:
        selected = []
        for record in records:
            if isinstance(record, Record) and record.tree is not None and record.labels is not None:
                word_ids = [ids.get(word, 0) for word in _words(record)]
                plural = NUMBERS.index(record.labels[0])
                selected.append(
                    Row(word_ids, record.tree.heads, plural, record.location in attracted)
                )
        if not selected:
            raise DataError(f"{path}: there is no verb with a number in it; give another treebank.")
        return selected

    return rows(train_records, train), rows(test_records, test), len(ids) + 1


def _words(record: Any) -> list[str]:
    if not isinstance(record, Record) or record.tree is None:
        return []
    return [record.texts[0][begin:end].lower() for begin, end in record.tree.spans]


def _sampler(rows: Sequence[Row]) -> Pick:
    def pick(step: int, count: int) -> Sequence[Row]:
        indices = torch.randint(len(rows), (count,), generator=generator(step))
        return [rows[index] for index in indices.tolist()]

    return pick
