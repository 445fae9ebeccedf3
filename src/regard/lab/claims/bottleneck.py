"""Without attention one state carries the source; with it, the decoder attends to all tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.data.batches.pairs import Example, collate
from regard.data.bundled import corpus
from regard.data.direction import Direction
from regard.data.records import require_records
from regard.data.sources.tsv import Spec as Tsv
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError
from regard.evaluation.bleu import Spec as Bleu
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, exactly, interval
from regard.models.base import ModelSpec, parameter_count
from regard.predictors.translator import Translator
from regard.training.loss import lm_head_loss

WITHOUT, WITH, TRANSFORMER = "recurrent", "recurrent with attention", "Transformer"
ARMS: Mapping[str, Mapping[str, Any]] = {
    WITHOUT: {"kind": "recurrent", "capability": "seq2seq", "score": "none"},
    WITH: {"kind": "recurrent", "capability": "seq2seq", "score": "additive"},
    TRANSFORMER: {"kind": "encoder-decoder", "layers": 2, "heads": 4},
}
STEP = {WITHOUT: 1, WITH: 1, TRANSFORMER: 8}  # multiples of D; heads divide it


class Spec(Claim):
    number: ClassVar[int] = 3
    title: ClassVar[str] = "Attention removes the bottleneck"
    statement: ClassVar[str] = (
        "When one hidden state carries the whole source, quality drops on long sentences; "
        "attention gives the decoder direct access to every source token."
    )
    experiment: ClassVar[str] = (
        "Lines of one to four French sentences are translated into English by a recurrent "
        "encoder-decoder without attention, the same with additive attention, and a Transformer, "
        "with equal parameter counts (within 5 %) and the same tokenizer, lines and training "
        "steps. BLEU is measured on lines that are not in the training data, in groups by the "
        "number of source words. The share of BLEU kept is the BLEU on the longest lines over the "
        "BLEU on the shortest, so that a model with low BLEU on all lines does not count as one "
        "that keeps much."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "fair": Criterion("parameters of the largest model over the smallest", at_most=1.05),
        "long": Criterion("BLEU on the longest lines, attention minus no attention", at_least=5.0),
        "kept": Criterion("share of BLEU kept, attention minus no attention", at_least=0.1),
        "transformer": Criterion(
            "share of BLEU kept, Transformer minus recurrent without attention", at_least=0.1
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "train_pairs": 300,
        "test_lines": 4,
        "sentences": 2,
        "edges": (10,),
        "steps": 4,
        "batch_tokens": 80,
        "vocabulary": 400,
        "parameters": 60_000,
        "seeds": 1,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "trained": "train_pairs",
        "tested": "test_lines",
        "tokens": "batch_tokens",
    }

    pairs: Path | None = Field(
        None, description="source<TAB>target, plain or gzip (default: the bundled corpus)"
    )
    train_pairs: int = Field(12_000, gt=0, description="training sentence pairs")
    test_lines: int = Field(100, gt=0, description="test lines for each number of sentences")
    sentences: int = Field(4, gt=1, description="largest number of sentences in a line")
    edges: tuple[int, ...] = Field(
        (10, 20, 30), description="source words that separate the groups"
    )
    vocabulary: int = Field(1000, ge=300, description="vocabulary size of the tokenizer")
    parameters: int = Field(400_000, gt=0, description="approximate parameters of each model")
    steps: int = Field(600, gt=0, description="training steps")
    batch_tokens: int = Field(1_500, gt=0, description="approximate target tokens in a batch")

    @model_validator(mode="after")
    def _check_edges(self) -> "Spec":
        if not self.edges or list(self.edges) != sorted({*self.edges} - {0}):
            raise ValueError("edges must be increasing positive integers, at least one")
        return self

    def gather(self, experiment: Experiment) -> Evidence:
        arms: dict[str, Any] = {
            arm: {"parameters": [], "bleu": [], "losses": [], "steps": self.steps} for arm in ARMS
        }
        lengths: list[list[float]] = []
        with experiment.plan(
            self.seeds * len(ARMS) * (self.steps + self.test_lines * self.sentences)
        ):
            for seed in range(self.seeds):
                task = self._task(seed)
                lengths.append([_mean_length(group) for group in task.groups])
                for arm, spec in _sized(len(task.tokenizer), self.parameters).items():
                    torch.manual_seed(seed)
                    model = spec.build(len(task.tokenizer)).to(experiment.device)
                    losses = self._fit(experiment, model, task, seed)
                    results = arms[arm]
                    results["parameters"].append(parameter_count(model))
                    results["losses"].append(losses)
                    results["bleu"].append(_scores(experiment, model, task))
        return {"arms": arms, "lengths": lengths}

    def _task(self, seed: int) -> "Task":
        """Draw training sentences and test lines for a seed."""
        rng = np.random.default_rng(seed)
        if self.pairs is None:
            # Half of the held-out pairs have word combinations that are not in the training data.
            splits = corpus(
                seed + 1, self.train_pairs, max(40, self.test_lines * self.sentences), 0
            )
            train, test = (
                [(pair.french, pair.english) for pair in part]
                for part in (splits.train, splits.dev)
            )
        else:
            train, test = _split(read_pairs(self.pairs), self.train_pairs, rng)
        tokenizer_spec = TokenizerSpec.model_validate({"vocabulary": self.vocabulary})
        tokenizer = tokenizer_spec.train(side for pair in train for side in pair)
        lines = [
            _joined(test, count, rng)
            for count in range(1, self.sentences + 1)
            for _ in range(self.test_lines)
        ]
        return Task(tokenizer, train, self._grouped(lines))

    def _grouped(self, lines: Sequence["Pair"]) -> list[list["Pair"]]:
        """Group lines by the number of source words."""
        groups: list[list[Pair]] = [[] for _ in range(len(self.edges) + 1)]
        for line in lines:
            groups[sum(len(line[0].split()) > edge for edge in self.edges)].append(line)
        for name, group in zip(self._names(), groups, strict=True):
            if not group:
                raise ConfigError(
                    f"edges: no line of the test has {name} source words; change edges or "
                    f"sentences, or raise test_lines."
                )
        return groups

    def _names(self) -> list[str]:
        ends = zip((0, *self.edges), self.edges, strict=False)
        return [*(f"{low + 1}–{high}" for low, high in ends), f"{self.edges[-1] + 1} or more"]

    def _fit(
        self, experiment: Experiment, model: nn.Module, task: "Task", seed: int
    ) -> list[float]:
        def loss(model: nn.Module, step: int) -> Tensor:
            return self._loss(model, task, seed, step)

        return experiment.fit(model, loss, self.steps)

    def _loss(self, model: Any, task: "Task", seed: int, step: int) -> Tensor:
        """Return the loss on lines with the same number of sentences, which need little padding."""
        rng = np.random.default_rng([seed, step])
        count = int(rng.integers(1, self.sentences + 1))
        examples, tokens = [], 0
        while tokens < self.batch_tokens:
            examples.append(task.example(_joined(task.train, count, rng)))
            tokens += len(examples[-1].target) - 1
        device = next(model.parameters()).device
        batch = collate(examples, task.tokenizer.pad).to(device)
        states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])
        labels, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
        return lm_head_loss(model, states, labels, token_mask, smoothing=0.0) / tokens

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        arms = evidence["arms"]
        longest = {arm: [bleu[-1] for bleu in arms[arm]["bleu"]] for arm in ARMS}
        kept = {arm: [_kept(bleu) for bleu in arms[arm]["bleu"]] for arm in ARMS}
        by_seed = zip(*(arms[arm]["parameters"] for arm in ARMS), strict=True)
        uneven = max(max(counts) / min(counts) for counts in by_seed)
        return {
            "fair": exactly(uneven),
            "long": difference(longest[WITH], longest[WITHOUT]),
            "kept": difference(kept[WITH], kept[WITHOUT]),
            "transformer": difference(kept[TRANSFORMER], kept[WITHOUT]),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        arms = evidence["arms"]
        lengths = np.mean(evidence["lengths"], axis=0)
        bleu = {arm: _over_seeds(arms[arm]["bleu"]) for arm in ARMS}
        rows = [
            [
                arm,
                f"{arms[arm]['parameters'][0]:,}",
                *map(str, bleu[arm]),
                str(interval([_kept(by_group) for by_group in arms[arm]["bleu"]])),
            ]
            for arm in ARMS
        ]
        by_length = {
            arm: dict(zip(map(float, lengths), intervals, strict=True))
            for arm, intervals in bleu.items()
        }
        curves = {
            arm: {
                float(round((at + 1) * self.steps / len(arms[arm]["losses"][0]))): intervals
                for at, intervals in enumerate(_over_seeds(arms[arm]["losses"]))
            }
            for arm in ARMS
        }
        head = ["", "parameters", *(f"{name} words" for name in self._names()), "kept"]
        return [
            Table("BLEU by the number of source words", head, rows),
            Plot("BLEU by source length", "source words", "BLEU", by_length),
            Plot("Training", "step", "loss per target token", curves),
        ]


Pair = tuple[str, str]  # source, target


class Task(NamedTuple):
    tokenizer: Tokenizer
    train: list[Pair]  # training sentences, joined to lines
    groups: list[list[Pair]]  # test lines, shortest first

    def example(self, line: Pair) -> Example:
        source, target = map(self.tokenizer.encode, line)
        end = self.tokenizer.end
        return Example([*source, end], [self.tokenizer.start, *target, end])


def read_pairs(path: Path) -> list[Pair]:
    """Read all pairs of a two-column file; raises DataError at the first invalid line."""
    pairs = []
    for line in require_records(Tsv(path=path, languages=("source", "target")).records()):
        source, target = line.texts
        if not source.strip() or not target.strip():
            raise DataError(f"{line.location}: a side has no text; fix or remove the line.")
        pairs.append((source, target))
    if not pairs:
        raise DataError(f"{path}: there are no pairs in it; give source<TAB>target, one a line.")
    return pairs


def _split(
    pairs: Sequence[Pair], count: int, rng: np.random.Generator
) -> tuple[list[Pair], list[Pair]]:
    """Split into training pairs and a tenth as many test pairs that share no side with them."""
    order = [pairs[i] for i in rng.permutation(len(pairs))]
    test = order[: max(1, min(count, len(order)) // 10)]
    sources, targets = ({pair[side] for pair in test} for side in (0, 1))
    train = [p for p in order if p[0] not in sources and p[1] not in targets][:count]
    if not train:
        raise DataError("the pairs are too few, or too alike, to train on some and test on others.")
    return train, test


def _joined(pairs: Sequence[Pair], count: int, rng: np.random.Generator) -> Pair:
    """Return a line of so many sentences."""
    sentences = [pairs[i] for i in rng.integers(len(pairs), size=count)]
    source, target = (" ".join(side) for side in zip(*sentences, strict=True))
    return source, target


def _sized(vocabulary: int, parameters: int) -> dict[str, ModelSpec]:
    """Return the Transformer nearest to a parameter count, and recurrent models nearest to it."""
    dim = _nearest(TRANSFORMER, vocabulary, parameters)
    equal = parameter_count(_spec(TRANSFORMER, dim).build(vocabulary))
    recurrent = {arm: _nearest(arm, vocabulary, equal) for arm in (WITHOUT, WITH)}
    return {arm: _spec(arm, size) for arm, size in {**recurrent, TRANSFORMER: dim}.items()}


def _nearest(arm: str, vocabulary: int, parameters: int) -> int:
    """Return the model size D nearest to a parameter count, which is a·D² + b·D + c."""
    tried = [8, 16, 24]
    counts = [parameter_count(_spec(arm, dim).build(vocabulary)) for dim in tried]
    largest_root = float(np.roots(np.polyfit(tried, np.array(counts) - parameters, 2)).real.max())
    return max(8, round(largest_root / STEP[arm]) * STEP[arm])


def _spec(arm: str, dim: int) -> ModelSpec:
    ffn_dim = {"ffn_dim": 2 * dim} if arm == TRANSFORMER else {}
    return ModelSpec.model_validate({**ARMS[arm], **ffn_dim, "dim": dim, "dropout": 0.0})


def _scores(experiment: Experiment, model: Any, task: Task) -> list[float]:
    """Return the BLEU of each group with greedy decoding."""
    longest = max(len(task.example(line).source) for group in task.groups for line in group)
    max_output = 2 * longest + 12  # no line is truncated
    translator = Translator(
        model, task.tokenizer, LanguageIdentifier({}), max_output, [Direction("source", "target")]
    )
    return [
        Bleu()
        .score(
            translator.translate([line[0] for line in group], on_progress=experiment.advance),
            [[line[1]] for line in group],
        )
        .value
        for group in task.groups
    ]


def _mean_length(lines: Sequence[Pair]) -> float:
    return float(np.mean([len(source.split()) for source, _ in lines]))


def _kept(bleu: Sequence[float]) -> float:
    """Return BLEU on the longest lines over BLEU on the shortest; 0 where that is 0."""
    return bleu[-1] / bleu[0] if bleu[0] > 0 else 0.0


def _over_seeds(seeds: Sequence[Sequence[float]]) -> list[Interval]:
    return [interval(list(values)) for values in zip(*seeds, strict=True)]
