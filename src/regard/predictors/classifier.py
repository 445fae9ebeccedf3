"""A labeller: texts, or pairs of texts, to labels with probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import validate
from regard.data.batches.base import pad
from regard.data.sources.base import SourceSpec
from regard.data.sources.labels import LabelsSpec
from regard.data.sources.trees import Parsed, words_of
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError
from regard.evaluation.classification import THRESHOLD
from regard.positions.trees import OUTSIDE, Trees

BATCH = 64

# A pair where the model was trained on pairs; a tree beside it where the model reads trees.
Text = str | tuple[str, str] | Parsed


@dataclass(frozen=True)
class Prediction:
    label: str  # the likeliest
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)  # of every label

    def at_least(self, threshold: float = THRESHOLD) -> tuple[str, ...]:
        """The labels that are so likely, likeliest first; of a text with several labels, its own"""
        likely = [each for each in self.probabilities.items() if each[1] >= threshold]
        return tuple(label for label, _ in sorted(likely, key=lambda each: -each[1]))


class Classifier:
    """What `regard.load` gives for a run of the classification job."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
        sides: int = 1,
        written: LabelsSpec | None = None,
        temperature: float = 1.0,
        trees: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.max_length = max_length
        self.sides = sides  # texts that are judged together: 1, or 2 for pairs
        self.written = written or LabelsSpec()  # how the labels of its training text were
        self.temperature = temperature  # what the logits are divided by, so that they are honest
        # Where it reads trees: the source its training text came from, but for the path.
        self.trees = trees

    @property
    def several(self) -> bool:
        """May a text have several labels, or none?"""
        return self.written.several

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def classify(
        self, texts: Sequence[Text], places: Sequence[str] | None = None
    ) -> list[Prediction]:
        """The likeliest label of each text, and how likely every label is.

        `places` is what each text is called where it has to be refused.
        """
        judged = []
        for row in self.judge(texts, places).exp().tolist():
            by_label = dict(zip(self.labels, row, strict=True))
            label = max(by_label, key=by_label.__getitem__)
            judged.append(Prediction(label, by_label[label], by_label))
        return judged

    @torch.inference_mode()
    def judge(self, texts: Sequence[Text], places: Sequence[str] | None = None) -> Tensor:
        """log p of each label for each text (N, labels)."""
        places = places or [f"text {number}" for number, _ in enumerate(texts, start=1)]
        rows = list(map(self.ids, texts, places))
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))  # little padding
        found = torch.empty(len(rows), len(self.labels))
        for start in range(0, len(rows), BATCH):
            some = order[start : start + BATCH]
            asked = [(rows[row], texts[row], places[row]) for row in some]
            logits = self.model(*self.read(asked))
            found[some] = self.calibrated(logits).float().cpu()
        return found

    def read(self, asked: Sequence[tuple[Sequence[int], Text, str]]) -> tuple[Any, ...]:
        """What the model is called with for texts, each with its ids and what it is called.

        Those are ids, which of them are real, and the trees, if it reads trees.
        """
        ids, token_mask = pad([ids for ids, _, _ in asked], self.tokenizer.pad)
        read = ids.to(self.device), token_mask.to(self.device)
        if self.trees is None:
            return read
        return *read, self._trees([(text, place) for _, text, place in asked])

    def _trees(self, asked: Sequence[tuple[Text, str]]) -> Trees:
        """Where the pieces of texts stand in their trees, start and end outside of them."""
        words, heads = [], []
        for text, place in asked:
            parsed = self._parsed(text, place)
            spans = [(first, end) for _, first, end in self.tokenizer.spans(parsed.text)]
            words.append([OUTSIDE, *words_of(spans, parsed.tree), OUTSIDE])
            heads.append(parsed.tree.heads)
        numbers, _ = pad(words, OUTSIDE)
        return Trees(numbers.to(self.device), pad(heads, 0)[0].to(self.device))

    def _parsed(self, text: Text, place: str) -> Parsed:
        """With its tree: its own, or one made as those of the training text were."""
        if isinstance(text, Parsed):
            return text
        source = validate(SourceSpec, {**(self.trees or {}), "path": "-"}, "the run's source")
        tree = source.tree(text) if isinstance(text, str) else None
        if tree is None:
            raise DataError(
                f"{place}: this model places words in dependency trees, and this text has none: "
                f"give sentences with their trees, in a file that ends in .conllu."
            )
        return Parsed(str(text), tree)

    def calibrated(self, logits: Tensor) -> Tensor:
        """log p by the model's logits (B, labels): they sum to 1 where a text has one label."""
        tempered = logits / self.temperature
        if self.several:
            return torch.nn.functional.logsigmoid(tempered)
        return tempered.log_softmax(-1)

    def ids(self, text: Text, where: str = "the text") -> list[int]:
        """What this model is given for a text or a pair; refuses what it cannot take.

        A pair is read as one sequence: <s> first </s> second </s>.
        """
        if isinstance(text, Parsed):
            text = text.text
        texts = (text,) if isinstance(text, str) else text
        if len(texts) != self.sides:
            raise DataError(f"{where}: this model judges {self._wanted}, not {len(texts)} texts.")
        start, end = self.tokenizer.start, self.tokenizer.end
        ids = [start]
        for each in texts:
            encoded = self.tokenizer.encode(each)
            if not encoded:
                raise DataError(f"{where}: there is nothing in it to judge.")
            ids += [*encoded, end]
        if len(ids) > self.max_length:
            raise DataError(
                f"{where}: there are {len(ids):,} tokens and this model takes "
                f"{self.max_length:,}: shorten it."
            )
        return ids

    def numbers(self, labels: Sequence[str], where: str) -> list[int]:
        """Labels as the model counts them; one that it was never taught is refused."""
        for label in labels:
            if label not in self.labels:
                known = ", ".join(self.labels[:10])
                more = ", …" if len(self.labels) > 10 else ""
                raise DataError(
                    f"{where}: this model was never taught the label {label!r}; it knows: {known}"
                    f"{more}."
                )
        return [self.labels.index(label) for label in labels]

    def split(self, line: str, where: str = "the text") -> Text:
        """A line as this model takes it: the texts of a pair have a tab between them."""
        first, *others = line.split("\t")
        if self.sides == 1 and others:
            raise DataError(
                f"{where}: this model judges {self._wanted}, and there is a tab in this: give the "
                f"text alone (`regard evaluate` takes texts with their labels)."
            )
        if self.sides == 1:
            return line
        if len(others) != 1:
            raise DataError(
                f"{where}: this model judges {self._wanted}: give both with one tab between them "
                f"(there are {len(others)})."
            )
        return first, others[0]

    @property
    def _wanted(self) -> str:
        return "pairs of texts" if self.sides == 2 else "one text at a time"
