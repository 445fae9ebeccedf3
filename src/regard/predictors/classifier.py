"""Classify texts or pairs of texts: labels with probabilities."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.config import validate
from regard.data.sources.base import SourceSpec
from regard.data.sources.characters import quote
from regard.data.sources.labels import LabelsSpec
from regard.data.sources.trees import ParsedText, token_words
from regard.data.tokenizers.tokenizer import Tokenizer, require_text
from regard.data.truncation import Keep, truncate_texts
from regard.engine.numerics import Scores, log_sigmoid
from regard.engine.ranking import rank
from regard.engine.stored_model import StoredModel
from regard.errors import DataError
from regard.evaluation.threshold import THRESHOLD
from regard.missing_modules import required_by
from regard.predictors.encoder import EncoderPredictor, batches_by_length

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.positions.trees import Trees

# A pair for a model of pairs; a text with its dependency tree for a model that needs trees.
Text = str | tuple[str, str] | ParsedText


@dataclass(frozen=True)
class Prediction:
    """Label of a text, and the probability of every label."""

    label: str  # the most likely
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)  # by label

    def at_least(self, threshold: float = THRESHOLD) -> tuple[str, ...]:
        """Return the labels with at least this probability, the most likely first.

        For a multi-label model these are the predicted labels.

        Args:
            threshold: Least probability (default: 0.5).

        Example:
            >>> from regard.predictors.classifier import Prediction
            >>> Prediction("a", 0.9, {"a": 0.9, "b": 0.6, "c": 0.1}).at_least(0.5)
            ('a', 'b')
        """
        likely = [item for item in self.probabilities.items() if item[1] >= threshold]
        return tuple(label for label, _ in sorted(likely, key=lambda item: -item[1]))


class Classifier(EncoderPredictor["nn.Module"]):
    """Predictor of a classification run.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        labels: Labels in the order of the model's outputs.
        max_length: Maximum number of tokens of an input.
        num_texts: Number of texts of an input: 1, or 2 for pairs (default: 1).
        label_format: Format of labels in the training data.
        temperature: Divides the logits for calibrated probabilities (default: 1.0).
        tree_source: Source of the training data, without its path, for a model that needs trees.
        truncate: Part of a text to keep if it is too long: "head", "tail" or "both" ends
            (default: None, a long text is refused).
        bits: 32, or 8 or 4 for integer weights (default: 32).
    """

    def __init__(
        self,
        model: "nn.Module | StoredModel",
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
        num_texts: int = 1,
        label_format: LabelsSpec | None = None,
        temperature: float = 1.0,
        tree_source: Mapping[str, Any] | None = None,
        truncate: Keep | None = None,
        bits: int = 32,
    ) -> None:
        super().__init__(model, tokenizer, max_length, bits)
        self.labels = tuple(labels)
        self.num_texts = num_texts
        self.label_format = label_format or LabelsSpec()
        self.temperature = temperature
        self.tree_source = tree_source
        self.truncate = truncate

    @property
    def multi_label(self) -> bool:
        """True if a text may have several labels or none."""
        return self.label_format.several

    def classify(
        self, texts: Sequence[Text], names: Sequence[str] | None = None
    ) -> list[Prediction]:
        """Return the most likely label of each text and the probability of every label.

        Args:
            texts: Texts, pairs of texts, or texts with dependency trees, as the model needs.
            names: Names of the texts in error messages (default: text 1, text 2 …).

        Returns:
            One prediction for each text, in the same order.

        Raises:
            DataError: A text is empty, too long, or not of the form that the model needs.

        Example:
            >>> import regard
            >>> classifier = regard.load_classifier("runs/reviews")
            >>> [prediction.label for prediction in classifier.classify(["a good film"])]
            ['positive']
        """
        predictions = []
        for row in self._log_probs(texts, names).tolist():
            by_label = dict(zip(self.labels, map(math.exp, row), strict=True))
            label = max(by_label, key=by_label.__getitem__)
            predictions.append(Prediction(label, by_label[label], by_label))
        return predictions

    @required_by("Classifier.log_probs")
    def log_probs(self, texts: Sequence[Text], names: Sequence[str] | None = None) -> "Tensor":
        """Return the log-probability of each label for each text (texts, labels).

        Args:
            texts: As for `classify`.
            names: Names of the texts in error messages (default: text 1, text 2 …).

        Raises:
            DataError: A text is empty, too long, or not of the form that the model needs.

        Example:
            >>> import regard
            >>> classifier = regard.load_classifier("runs/reviews")
            >>> tuple(classifier.log_probs(["a good film", "a bad film"]).shape)
            (2, 2)
        """
        import torch

        return torch.from_numpy(self._log_probs(texts, names))

    def _log_probs(self, texts: Sequence[Text], names: Sequence[str] | None) -> Scores:
        """Return the log-probabilities as an array."""
        if isinstance(texts, str):
            raise DataError("a list of texts is needed, not one text: give [text].")
        texts = list(texts)
        names = names or [f"text {number}" for number, _ in enumerate(texts, start=1)]
        if len(names) != len(texts):
            raise DataError(
                f"there are {len(texts):,} texts and {len(names):,} names: give one name for each."
            )
        rows = [self.encode(text, name) for text, name in zip(texts, names, strict=True)]
        log_probs = np.empty((len(rows), len(self.labels)), np.float32)
        for batch in batches_by_length(rows):
            encoded = [(rows[row], texts[row], names[row]) for row in batch]
            log_probs[batch] = self._batch_log_probs(encoded)
        return log_probs

    def _batch_log_probs(self, encoded: Sequence[tuple[list[int], Text, str]]) -> Scores:
        fast = self._fast if self.tree_source is None else None
        if fast is None:
            import torch

            with torch.inference_mode():
                logits = self.model(*self.model_inputs(encoded))
                log_probs: Scores = self.calibrate(logits).float().cpu().numpy()
                return log_probs
        scores = fast.class_logits([ids for ids, _, _ in encoded]) / np.float32(self.temperature)
        if self.multi_label:
            return log_sigmoid(scores)
        *_, log_sums = rank(scores, 1)
        return np.asarray(scores - log_sums[:, None])

    def model_inputs(self, encoded: Sequence[tuple[Sequence[int], Text, str]]) -> tuple[Any, ...]:
        """Return the model's arguments: ids, token mask, and trees if the model needs them.

        Args:
            encoded: Ids of `encode`, text and name of each row.

        Raises:
            DataError: The model needs trees and a text has none.

        Example:
            >>> import regard
            >>> classifier = regard.load_classifier("runs/reviews")
            >>> ids, token_mask = classifier.model_inputs(
            ...     [(classifier.encode("a good film"), "a good film", "text 1")]
            ... )
            >>> bool(token_mask.all())
            True
        """
        from regard.data.batches.base import pad

        ids, token_mask = pad([ids for ids, _, _ in encoded], self.tokenizer.pad)
        inputs = ids.to(self.device), token_mask.to(self.device)
        if self.tree_source is None:
            return inputs
        return *inputs, self._trees([(text, name) for _, text, name in encoded])

    def _trees(self, texts: Sequence[tuple[Text, str]]) -> "Trees":
        """Return the tree positions of the tokens; start and end token are outside the tree."""
        from regard.data.batches.base import pad
        from regard.positions.trees import OUTSIDE, Trees

        words, heads = [], []
        for text, name in texts:
            parsed = self._parsed(text, name)
            spans = [(first, end) for _, first, end in self.tokenizer.spans(parsed.text)]
            (token_numbers,) = self._truncated([token_words(spans, parsed.tree)])
            words.append([OUTSIDE, *token_numbers, OUTSIDE])
            heads.append(parsed.tree.heads)
        word_ids, _ = pad(words, OUTSIDE)
        return Trees(word_ids.to(self.device), pad(heads, 0)[0].to(self.device))

    def _parsed(self, text: Text, name: str) -> ParsedText:
        """Return the text with its own tree, or with one built as in the training data."""
        if isinstance(text, ParsedText):
            return text
        source = validate(SourceSpec, {**(self.tree_source or {}), "path": "-"}, "the run's source")
        tree = source.parse(text) if isinstance(text, str) else None
        if tree is None:
            raise DataError(
                f"{name}: this model needs dependency trees, and this text has none: give "
                f"sentences with their trees, in a file that ends in .conllu."
            )
        return ParsedText(str(text), tree)

    def calibrate(self, logits: "Tensor") -> "Tensor":
        """Return calibrated log-probabilities of logits (B, labels).

        They sum to 1 over the labels unless the model is multi-label.

        Args:
            logits: Outputs of the model.

        Example:
            >>> import regard, torch
            >>> classifier = regard.load_classifier("runs/reviews")
            >>> round(float(classifier.calibrate(torch.zeros(1, 2)).exp().sum()), 4)
            1.0
        """
        logits = logits / self.temperature
        if self.multi_label:
            from torch.nn.functional import logsigmoid

            return logsigmoid(logits)
        return logits.log_softmax(-1)

    def encode(self, text: Text, name: str = "the text") -> list[int]:
        """Return the model's input ids for a text or a pair: <s> first </s> second </s>.

        Args:
            text: A text, a pair, or a text with its tree.
            name: Name of the text in error messages (default: the text).

        Raises:
            DataError: The text is empty, too long, or not of the form that the model needs.

        Example:
            >>> import regard
            >>> classifier = regard.load_classifier("runs/reviews")
            >>> classifier.encode("a good film")[0] == classifier.tokenizer.start
            True
        """
        if isinstance(text, ParsedText):
            text = text.text
        texts = text if isinstance(text, tuple | list) else (text,)
        if len(texts) != self.num_texts:
            raise DataError(f"{name}: this model classifies {self._form}, not {len(texts)} texts.")
        encoded = []
        for part in texts:
            require_text(part, name)
            encoded.append(self.tokenizer.encode(part))
            if not encoded[-1]:
                raise DataError(f"{name}: there is no text to classify.")
        ids = [self.tokenizer.start]
        for part_ids in self._truncated(encoded):
            ids += [*part_ids, self.tokenizer.end]
        if len(ids) > self.max_length:
            raise DataError(
                f"{name}: there are {len(ids):,} tokens and this model takes "
                f"{self.max_length:,}: shorten it, or train a model with task.truncate."
            )
        return ids

    def _truncated(self, texts: Sequence[list[int]]) -> Sequence[list[int]]:
        """Return numbers of the tokens of each text, as many as the model takes."""
        if self.truncate is None:
            return texts
        return truncate_texts(texts, self.max_length - 1 - len(texts), self.truncate)

    def label_ids(self, labels: Sequence[str], name: str) -> list[int]:
        """Return the indices of labels in the model's outputs.

        Args:
            labels: Names of labels.
            name: Name of their text in error messages.

        Raises:
            DataError: The model was not trained with a label.

        Example:
            >>> import regard
            >>> regard.load_classifier("runs/reviews").label_ids(["positive"], "text 1")
            [1]
        """
        for label in labels:
            if label not in self.labels:
                known = ", ".join(self.labels[:10])
                more = ", …" if len(self.labels) > 10 else ""
                raise DataError(
                    f"{name}: this model was not trained with the label {quote(label)}; its "
                    f"labels: {known}{more}."
                )
        return [self.labels.index(label) for label in labels]

    def parse_line(self, line: str, name: str = "the text") -> Text:
        """Return a line as the text that the model needs: a pair is separated by a tab.

        Args:
            line: One line of a file.
            name: Name of the line in error messages (default: the text).

        Raises:
            DataError: The number of tabs does not fit the model.

        Example:
            >>> import regard
            >>> regard.load_classifier("runs/reviews").parse_line("a good film")
            'a good film'
        """
        first, *others = line.split("\t")
        if self.num_texts == 1 and others:
            raise DataError(
                f"{name}: this model classifies {self._form}, and there is a tab in this: give the "
                f"text alone (`regard evaluate` takes texts with their labels)."
            )
        if self.num_texts == 1:
            return line
        if len(others) != 1:
            raise DataError(
                f"{name}: this model classifies {self._form}: give both with one tab between them "
                f"(there are {len(others)})."
            )
        return first, others[0]

    @property
    def _form(self) -> str:
        return "pairs of texts" if self.num_texts == 2 else "one text at a time"
