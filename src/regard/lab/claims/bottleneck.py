"""Without attention one state carries the whole source; with it, the decoder looks at all of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.data.batches.pairs import Example, collate
from regard.data.bundled import corpus
from regard.data.config import Direction
from regard.data.records import Rejected
from regard.data.sources.tsv import read_columns
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError
from regard.evaluation.bleu import Spec as Bleu
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, interval
from regard.models.base import ModelSpec, parameter_count
from regard.predictors.translator import Translator
from regard.training.loss import lm_head_loss

WITHOUT, WITH, TRANSFORMER = "recurrent", "recurrent with attention", "Transformer"
ARMS: Mapping[str, Mapping[str, Any]] = {
    WITHOUT: {"kind": "recurrent", "capability": "seq2seq", "score": "none"},
    WITH: {"kind": "recurrent", "capability": "seq2seq", "score": "additive"},
    TRANSFORMER: {"kind": "encoder-decoder", "layers": 2, "heads": 4},
}
STEP = {WITHOUT: 1, WITH: 1, TRANSFORMER: 8}  # of model sizes; a Transformer's heads share theirs


class Spec(Claim):
    number: ClassVar[int] = 3
    title: ClassVar[str] = "Attention removes the bottleneck"
    statement: ClassVar[str] = (
        "Where one hidden state carries all of the source, long sentences are lost on the way; "
        "attention gives the decoder a direct way to every source word."
    )
    experiment: ClassVar[str] = (
        "Lines of one to four French sentences are translated into English by a recurrent "
        "encoder-decoder without attention, the same with additive attention, and a Transformer: "
        "equal parameters (within 5 %), the same tokeniser, lines and steps. BLEU is measured on "
        "lines never trained on, in groups by the number of source words. What a model keeps is "
        "its BLEU on the longest lines as a share of its BLEU on the shortest, so that a model "
        "that is poor throughout is not counted as one that loses little."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "fair": Criterion("parameters of the largest model, over the smallest's", at_most=1.05),
        "long": Criterion("BLEU on the longest lines, with attention less without", at_least=5.0),
        "kept": Criterion("share of BLEU kept, with attention less without", at_least=0.1),
        "transformer": Criterion(
            "share of BLEU kept, Transformer less recurrent without attention", at_least=0.1
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "trained": 300,
        "tested": 4,
        "sentences": 2,
        "edges": (10,),
        "steps": 4,
        "tokens": 80,
        "vocabulary": 400,
        "parameters": 60_000,
        "seeds": 2,
    }

    pairs: Path | None = Field(
        None, description="source<TAB>target, plain or gzip; the bundled corpus unless given"
    )
    trained: int = Field(12_000, gt=0, description="sentence pairs to train on")
    tested: int = Field(100, gt=0, description="lines of each number of sentences to translate")
    sentences: int = Field(4, gt=1, description="in a line at most")
    edges: tuple[int, ...] = Field((10, 20, 30), description="source words that part the groups")
    vocabulary: int = Field(1000, ge=300, description="pieces of the tokeniser")
    parameters: int = Field(400_000, gt=0, description="of each model, about")
    steps: int = Field(600, gt=0, description="of training")
    tokens: int = Field(1_500, gt=0, description="of the target in a step, about")

    @model_validator(mode="after")
    def _parted(self) -> "Spec":
        if not self.edges or list(self.edges) != sorted({*self.edges} - {0}):
            raise ValueError("edges must be whole numbers above 0 that grow, one or more")
        return self

    def gather(self, experiment: Experiment) -> Evidence:
        found: dict[str, Any] = {
            arm: {"parameters": [], "bleu": [], "losses": [], "steps": self.steps} for arm in ARMS
        }
        lengths: list[list[float]] = []
        with experiment.plan(self.seeds * len(ARMS) * (self.steps + self.tested * self.sentences)):
            for seed in range(self.seeds):
                task = self._task(seed)
                lengths.append([_mean_length(group) for group in task.groups])
                for arm, spec in _sized(len(task.tokenizer), self.parameters).items():
                    torch.manual_seed(seed)
                    model = spec.build(len(task.tokenizer)).to(experiment.device)
                    losses = self._fit(experiment, model, task, seed)
                    kept = found[arm]
                    kept["parameters"].append(parameter_count(model))
                    kept["losses"].append(losses)
                    kept["bleu"].append(_scores(experiment, model, task))
        return {"arms": found, "lengths": lengths}

    def _task(self, seed: int) -> "Task":
        """What is learned and what is asked for, drawn anew for each seed."""
        chance = np.random.default_rng(seed)
        if self.pairs is None:
            # Half of what is held out says what the grammar never said in training.
            drawn = corpus(seed + 1, self.trained, max(40, self.tested * self.sentences), 0)
            learned, kept = (
                [(each.french, each.english) for each in part] for part in (drawn.train, drawn.dev)
            )
        else:
            learned, kept = _split(read_pairs(self.pairs), self.trained, chance)
        maker = TokenizerSpec.model_validate({"vocabulary": self.vocabulary})
        tokenizer = maker.train(side for pair in learned for side in pair)
        lines = [
            _joined(kept, count, chance)
            for count in range(1, self.sentences + 1)
            for _ in range(self.tested)
        ]
        return Task(tokenizer, learned, self._grouped(lines))

    def _grouped(self, lines: Sequence["Pair"]) -> list[list["Pair"]]:
        """Lines of at most the first edge's words, the second's …, and longer ones."""
        groups: list[list[Pair]] = [[] for _ in range(len(self.edges) + 1)]
        for line in lines:
            groups[sum(len(line[0].split()) > edge for edge in self.edges)].append(line)
        for name, group in zip(self._names(), groups, strict=True):
            if not group:
                raise ConfigError(
                    f"edges: no line of the test has {name} source words; change edges or "
                    f"sentences, or raise tested."
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
        """Of lines that all have the same number of sentences: little of a batch is padding."""
        chance = np.random.default_rng([seed, step])
        count = int(chance.integers(1, self.sentences + 1))
        examples, tokens = [], 0
        while tokens < self.tokens:
            examples.append(task.example(_joined(task.learned, count, chance)))
            tokens += len(examples[-1].target) - 1
        device = next(model.parameters()).device
        batch = collate(examples, task.tokenizer.pad).to(device)
        states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])
        words, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
        return lm_head_loss(model, states, words, token_mask, smoothing=0.0) / tokens

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        arms = evidence["arms"]
        longest = {arm: [bleu[-1] for bleu in arms[arm]["bleu"]] for arm in ARMS}
        kept = {arm: [_kept(bleu) for bleu in arms[arm]["bleu"]] for arm in ARMS}
        by_seed = zip(*(arms[arm]["parameters"] for arm in ARMS), strict=True)
        uneven = max(max(counts) / min(counts) for counts in by_seed)
        return {
            "fair": Interval(uneven, uneven, uneven),
            "long": difference(longest[WITH], longest[WITHOUT]),
            "kept": difference(kept[WITH], kept[WITHOUT]),
            "transformer": difference(kept[TRANSFORMER], kept[WITHOUT]),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        arms = evidence["arms"]
        lengths = np.mean(evidence["lengths"], axis=0)
        bleu = {arm: _across(arms[arm]["bleu"]) for arm in ARMS}
        rows = [
            [
                arm,
                f"{arms[arm]['parameters'][0]:,}",
                *map(str, bleu[arm]),
                str(interval([_kept(each) for each in arms[arm]["bleu"]])),
            ]
            for arm in ARMS
        ]
        by_length = {
            arm: dict(zip(map(float, lengths), found, strict=True)) for arm, found in bleu.items()
        }
        curves = {
            arm: {
                float(round((at + 1) * self.steps / len(arms[arm]["losses"][0]))): found
                for at, found in enumerate(_across(arms[arm]["losses"]))
            }
            for arm in ARMS
        }
        head = ["", "parameters", *(f"{name} words" for name in self._names()), "kept"]
        return [
            Table("BLEU by the number of source words", head, rows),
            Plot("BLEU by source length", "source words", "BLEU", by_length),
            Plot("Training", "step", "loss of a target piece", curves),
        ]


Pair = tuple[str, str]  # source, target


class Task(NamedTuple):
    tokenizer: Tokenizer
    learned: list[Pair]  # sentences to put lines together of
    groups: list[list[Pair]]  # lines to be translated, the shortest first

    def example(self, line: Pair) -> Example:
        source, target = map(self.tokenizer.encode, line)
        end = self.tokenizer.end
        return Example([*source, end], [self.tokenizer.start, *target, end])


def read_pairs(path: Path) -> list[Pair]:
    """All pairs of a file of two columns; the first line that is none is named."""
    pairs = []
    for line in read_columns(path, (0, 1)):
        if isinstance(line, Rejected):
            raise DataError(f"{line.place}: {line.why} ({line.found}); mend or remove the line.")
        source, target = line.texts
        if not source.strip() or not target.strip():
            raise DataError(f"{line.place}: a side has no text; mend or remove the line.")
        pairs.append((source, target))
    if not pairs:
        raise DataError(f"{path}: there are no pairs in it; give source<TAB>target, one a line.")
    return pairs


def _split(
    pairs: Sequence[Pair], trained: int, chance: np.random.Generator
) -> tuple[list[Pair], list[Pair]]:
    """Some to train on, and a tenth as many that share no side with them."""
    order = [pairs[i] for i in chance.permutation(len(pairs))]
    kept = order[: max(1, min(trained, len(order)) // 10)]
    sources, targets = ({pair[side] for pair in kept} for side in (0, 1))
    learned = [p for p in order if p[0] not in sources and p[1] not in targets][:trained]
    if not learned:
        raise DataError("the pairs are too few, or too alike, to train on some and test on others.")
    return learned, kept


def _joined(pairs: Sequence[Pair], count: int, chance: np.random.Generator) -> Pair:
    """A line of so many sentences."""
    drawn = [pairs[i] for i in chance.integers(len(pairs), size=count)]
    source, target = (" ".join(side) for side in zip(*drawn, strict=True))
    return source, target


def _sized(vocabulary: int, parameters: int) -> dict[str, ModelSpec]:
    """The Transformer nearest to so many parameters, and recurrent models nearest to it."""
    dim = _nearest(TRANSFORMER, vocabulary, parameters)
    equal = parameter_count(_spec(TRANSFORMER, dim).build(vocabulary))
    recurrent = {arm: _nearest(arm, vocabulary, equal) for arm in (WITHOUT, WITH)}
    return {arm: _spec(arm, size) for arm, size in {**recurrent, TRANSFORMER: dim}.items()}


def _nearest(arm: str, vocabulary: int, parameters: int) -> int:
    """The model size D with about so many parameters, which are a polynomial a·D² + b·D + c."""
    tried = [8, 16, 24]
    counts = [parameter_count(_spec(arm, dim).build(vocabulary)) for dim in tried]
    largest_root = float(np.roots(np.polyfit(tried, np.array(counts) - parameters, 2)).real.max())
    return max(8, round(largest_root / STEP[arm]) * STEP[arm])


def _spec(arm: str, dim: int) -> ModelSpec:
    ffn_dim = {"ffn_dim": 2 * dim} if arm == TRANSFORMER else {}
    return ModelSpec.model_validate({**ARMS[arm], **ffn_dim, "dim": dim, "dropout": 0.0})


def _scores(experiment: Experiment, model: Any, task: Task) -> list[float]:
    """BLEU of each group, by greedy decoding."""
    longest = max(len(task.example(line).source) for group in task.groups for line in group)
    room = 2 * longest + 12  # so that no line is cut, and none runs out of words
    translator = Translator(
        model, task.tokenizer, LanguageIdentifier({}), room, [Direction("source", "target")]
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
    """BLEU on the longest as a share of that on the shortest; nothing is kept of nothing."""
    return bleu[-1] / bleu[0] if bleu[0] > 0 else 0.0


def _across(seeds: Sequence[Sequence[float]]) -> list[Interval]:
    return [interval(list(values)) for values in zip(*seeds, strict=True)]
