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
from regard.lab.intervals import Interval, difference, interval
from regard.models.base import ModelSpec, parameter_count
from regard.positions.trees import Trees

# For each model: its positions, and whether its trees are those of the sentences.
ARMS: Mapping[str, tuple[Any, bool]] = {
    "the line": ("sinusoidal", True),
    "tree and line": ({"kind": "syntax"}, True),
    "the tree alone": ({"kind": "syntax", "linear": "none"}, True),
    "drawn trees and the line": ({"kind": "syntax"}, False),
}
LINE, BOTH, ALONE, DRAWN = ARMS
NUMBERS = ("Sing", "Plur")
BLANK, NOUNS, WORDS = 1, 2, 4  # generated sentences: the verb, nouns by number, other words
OTHERS = 8  # other words
ROWS = 32  # rows in a batch
KNOWN = 5000  # most frequent words of a treebank; any other is 0
FRESH = 10**6  # batches from this step on are for testing


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
        "drawn": Criterion("accuracy, random trees minus linear", at_most=0.02),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "length": 6,
        "dim": 32,
        "steps": 30,
        "judged": 200,
    }

    train: Path | None = Field(None, description="training treebank, CoNLL-U")
    test: Path | None = Field(None, description="test treebank, CoNLL-U")
    length: int = Field(12, gt=2, description="words of a generated sentence")
    dim: int = Field(64, gt=0, description="D of the models")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the models")
    steps: int = Field(400, gt=0, description="training steps of 32 sentences")
    rate: float = Field(0.003, gt=0, description="learning rate")
    judged: int = Field(1000, gt=1, description="generated test sentences")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.train is None) != (self.test is None):
            raise ValueError("train and test: give both treebanks, or neither")
        return self

    def gather(self, experiment: Experiment) -> Evidence:
        if self.train is None or self.test is None:
            vocabulary, pick = WORDS + OTHERS, _making(self.length)
            judged = pick(FRESH, self.judged)
        else:
            with experiment.report.busy("Reading the treebanks …"):
                learned, judged, vocabulary = _treebanks(self.train, self.test)
            pick = _picking(learned)
        found: list[dict[str, Any]] = []
        with experiment.plan(self.seeds * len(ARMS) * self.steps):
            for seed in range(self.seeds):
                for arm in ARMS:
                    told = self._learned(experiment, arm, seed, vocabulary, pick, judged)
                    found.append({"arm": arm, "seed": seed, **told})
        misled = [row.attracted for row in judged]
        plural = sum(row.plural for row in judged) / len(judged)
        counts = {"judged": len(judged), "attracted": sum(misled), "plural": plural}
        return {"found": found, **counts}

    def _learned(
        self,
        experiment: Experiment,
        arm: str,
        seed: int,
        vocabulary: int,
        pick: Pick,
        judged: Sequence[Row],
    ) -> dict[str, float]:
        torch.manual_seed(seed)
        position, true = ARMS[arm]
        settings: dict[str, Any] = {"kind": "classifier", "pooling": "attention", "layers": 2}
        settings |= {"dim": self.dim, "heads": 4, "ffn_dim": 2 * self.dim, "dropout": self.dropout}
        spec = ModelSpec.model_validate({**settings, "position": position})
        model = spec.build(vocabulary).to(experiment.device)

        def logits(rows: Sequence[Row]) -> Tensor:
            ids, token_mask = pad([row.ids for row in rows], 0)
            read: list[Any] = [ids.to(experiment.device), token_mask.to(experiment.device)]
            if spec.needs_trees:
                trees, _ = pad([row.heads if true else _drawn_tree(row) for row in rows], 0)
                words = torch.arange(ids.size(1)).expand_as(ids)
                read.append(Trees(words.to(experiment.device), trees.to(experiment.device)))
            told: Tensor = model(*read)
            return told

        def loss(_: nn.Module, step: int) -> Tensor:
            rows = pick((seed + 1) * 10_000 + step, ROWS)
            wanted = torch.tensor([row.plural for row in rows], device=experiment.device)
            return nn.functional.cross_entropy(logits(rows), wanted)

        losses = experiment.fit(model, loss, self.steps, self.rate)
        with torch.no_grad():
            parts = [logits(judged[at : at + 100]).argmax(-1) for at in range(0, len(judged), 100)]
        right = torch.cat(parts).cpu() == torch.tensor([row.plural for row in judged])
        misled = torch.tensor([row.attracted for row in judged])
        return {
            "right": float(right.float().mean()),
            "right_attracted": float(right[misled].float().mean()),
            "loss": losses[-1],
            "parameters": parameter_count(model),
        }

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        def less_the_line(arm: str, name: str) -> Interval:
            return difference(_column(evidence, arm, name), _column(evidence, LINE, name))

        return {
            "gain": less_the_line(BOTH, "right"),
            "attracted": less_the_line(BOTH, "right_attracted"),
            "drawn": less_the_line(DRAWN, "right"),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        judged, misled, plural = (evidence[name] for name in ("judged", "attracted", "plural"))
        columns = ("right", "right_attracted", "loss", "parameters")
        rows = [
            [arm, *(str(interval(_column(evidence, arm, name))) for name in columns)]
            for arm in ARMS
        ]
        made = "made sentences" if self.test is None else f"sentences of {self.test.parent.name}"
        often = max(plural, 1 - plural)
        title = (
            f"Right, of {judged:,} {made}, {misled:,} of them attracted; always to say the "
            f"commoner number would be right in {often:.1%}"
        )
        return [
            Table(title, ["positions", "accuracy", "attraction", "last loss", "parameters"], rows)
        ]


def _column(evidence: Evidence, arm: str, name: str) -> list[float]:
    return [row[name] for row in evidence["found"] if row["arm"] == arm]


def _making(length: int) -> Pick:
    """Generate sentences: a verb, its subject below it, and all other words below the subject."""

    def made(chance: Random) -> Row:
        verb = chance.randrange(1, length)
        rest = [word for word in range(length) if word != verb]
        subject = verb - 1 if chance.random() < 0.5 else chance.choice(rest)
        ids = [_noun(chance) if chance.random() < 2 / 3 else _other(chance) for _ in range(length)]
        ids[verb], ids[subject] = BLANK, _noun(chance)
        heads, above = [verb] * length, [subject]
        for word in chance.sample(rest, len(rest)):
            if word != subject:
                heads[word] = chance.choice(above)
                above.append(word)
        misleads = {NOUNS: NOUNS + 1, NOUNS + 1: NOUNS}[ids[subject]]
        return Row(ids, heads, ids[subject] - NOUNS, ids[verb - 1] == misleads)

    def pick(step: int, count: int) -> Sequence[Row]:
        chance = Random(step)
        return [made(chance) for _ in range(count)]

    return pick


def _noun(chance: Random) -> int:
    return NOUNS + chance.randrange(2)


def _other(chance: Random) -> int:
    return WORDS + chance.randrange(OTHERS)


def _drawn_tree(row: Row) -> list[int]:
    """Return a random tree of as many words, always the same for a sentence."""
    chance, size = Random(str(row.ids)), len(row.ids)
    order = chance.sample(range(size), size)
    heads = [order[0]] * size
    for at in range(1, size):
        heads[order[at]] = order[chance.randrange(at)]
    return heads


def _treebanks(train: Path, test: Path) -> tuple[list[Row], list[Row], int]:
    """Return training rows, test rows and the vocabulary size."""
    learned, judged = (list(Agreement(path=path).records()) for path in (train, test))
    misled = {each.location for each in Agreement(path=test, attracted=True).records()}
    counts = Counter(word for record in learned for word in _words(record))
    ids = {word: number for number, (word, _) in enumerate(counts.most_common(KNOWN), start=1)}

    def rows(records: Sequence[Any], path: Path) -> list[Row]:
        found = []
        for each in records:
            if isinstance(each, Record) and each.tree is not None and each.labels is not None:
                known = [ids.get(word, 0) for word in _words(each)]
                plural = NUMBERS.index(each.labels[0])
                found.append(Row(known, each.tree.heads, plural, each.location in misled))
        if not found:
            raise DataError(f"{path}: there is no verb in it whose number could be asked for.")
        return found

    return rows(learned, train), rows(judged, test), len(ids) + 1


def _words(record: Any) -> list[str]:
    if not isinstance(record, Record) or record.tree is None:
        return []
    return [record.texts[0][begin:end].lower() for begin, end in record.tree.spans]


def _picking(rows: Sequence[Row]) -> Pick:
    def pick(step: int, count: int) -> Sequence[Row]:
        drawn = torch.randint(len(rows), (count,), generator=generator(step))
        return [rows[at] for at in drawn.tolist()]

    return pick
