"""Zero-shot classification: choose the label whose continuation a language model finds most likely.

    score(label) = log p(continuation | text in its template)     "total"
                   the same, per token                             "mean"
                   the same, minus that after an empty text        "calibrated"

A model prefers some tokens whatever they follow, and short continuations to long ones. "calibrated"
compares how much more likely the text makes each continuation: the domain-conditional PMI of
Holtzman et al. (2021), which chooses as the contextual calibration of Zhao et al. (2021) with an
empty content-free text.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from regard.data.batches.padding import pad_rows
from regard.engine.numerics import Scores, softmax
from regard.engine.ranking import rank
from regard.engine.steppers import FastLanguageModel
from regard.errors import ConfigError, DataError
from regard.missing_modules import required_by
from regard.predictors.base import named_texts
from regard.predictors.classifier import Prediction
from regard.predictors.encoder import batches_by_length
from regard.predictors.generator import TextGenerator

if TYPE_CHECKING:
    from torch import Tensor

TEXT = "{text}"
BATCH = 32  # texts with a continuation, in torch

Normalize = Literal["total", "mean", "calibrated"]


class _Option(NamedTuple):
    """Ids of a text with one continuation, and how many of them are context."""

    ids: list[int]
    context: int


class ZeroShotClassifier:
    """Classify with a language model that was not trained on labels.

    Args:
        generator: The language model.
        template: Text around each input, with {text} in it.
        continuations: Continuation of the template for each label.
        normalize: "calibrated" (default), "mean" or "total".

    Raises:
        ConfigError: The template has no {text}, or the continuations do not differ.

    Example:
        >>> import regard
        >>> model = regard.load_language_model("runs/proverbs")
        >>> continuations = {"sewing": " saves nine", "cooking": " spoils the broth"}
        >>> classifier = regard.ZeroShotClassifier(model, "{text}", continuations)
        >>> classifier.classify(["a stitch in time"])[0].label
        'sewing'
    """

    def __init__(
        self,
        generator: TextGenerator,
        template: str,
        continuations: Mapping[str, str],
        normalize: Normalize = "calibrated",
    ) -> None:
        _check(template, continuations, normalize)
        self.generator, self.template = generator, template
        self.labels = tuple(continuations)
        self.continuations = dict(continuations)
        self.normalize = normalize

    def classify(self, texts: Sequence[str]) -> list[Prediction]:
        """Return the most likely label of each text and the probability of every label.

        Args:
            texts: Texts that fit the model with their template and continuations.

        Returns:
            One prediction for each text, in the same order.

        Raises:
            DataError: A text is empty or too long.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> continuations = {"sewing": " saves nine", "cooking": " spoils the broth"}
            >>> classifier = regard.ZeroShotClassifier(model, "{text}", continuations)
            >>> sorted(classifier.classify(["a stitch in time"])[0].probabilities)
            ['cooking', 'sewing']
        """
        predictions = []
        for row in self._probabilities(texts).tolist():
            label = self.labels[row.index(max(row))]
            by_label = dict(zip(self.labels, row, strict=True))
            predictions.append(Prediction(label, max(row), by_label))
        return predictions

    @required_by("ZeroShotClassifier.probabilities")
    def probabilities(self, texts: Sequence[str]) -> "Tensor":
        """Return the probability of each label for each text (texts, labels); rows sum to 1.

        Args:
            texts: As for `classify`.

        Raises:
            DataError: A text is empty or too long.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> continuations = {"sewing": " saves nine", "cooking": " spoils the broth"}
            >>> classifier = regard.ZeroShotClassifier(model, "{text}", continuations)
            >>> tuple(classifier.probabilities(["a stitch in time"]).shape)
            (1, 2)
        """
        import torch

        return torch.from_numpy(self._probabilities(texts))

    def _probabilities(self, texts: Sequence[str]) -> Scores:
        texts, _ = named_texts(texts)
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise DataError(f"text {number} is empty: there is no text to classify.")
        probabilities = self.score_matrix(texts)
        for row in probabilities:
            row[:] = softmax(row)
        return probabilities

    @required_by("ZeroShotClassifier.scores")
    def scores(self, texts: Sequence[str]) -> "Tensor":
        """Return the score of each label for each text (texts, labels), as `normalize` says.

        Args:
            texts: As for `classify`; may be empty.

        Raises:
            DataError: A text is too long.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> continuations = {"sewing": " saves nine", "cooking": " spoils the broth"}
            >>> classifier = regard.ZeroShotClassifier(model, "{text}", continuations, "total")
            >>> bool((classifier.scores(["a stitch in time"]) < 0).all())
            True
        """
        import torch

        return torch.from_numpy(self.score_matrix(texts))

    def score_matrix(self, texts: Sequence[str]) -> Scores:
        """Return the scores of `scores` as an array, without torch where the engine computes them.

        Args:
            texts: As for `classify`; may be empty.

        Raises:
            DataError: A text is too long.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> continuations = {"sewing": " saves nine", "cooking": " spoils the broth"}
            >>> classifier = regard.ZeroShotClassifier(model, "{text}", continuations)
            >>> classifier.score_matrix(["a stitch in time"]).shape
            (1, 2)
        """
        texts, _ = named_texts(texts)
        if self.normalize == "calibrated":
            log_p = self._log_p([*texts, ""], "total")
            return np.asarray(log_p[:-1] - log_p[-1])
        return self._log_p(texts, self.normalize)

    def _log_p(self, texts: Sequence[str], normalize: Normalize) -> Scores:
        """Return log p of each continuation of each text (texts, labels), in double precision."""
        by_text = [self._options(text, number) for number, text in enumerate(texts, start=1)]
        packed = self.generator.engine_model.packed
        if isinstance(packed, FastLanguageModel):
            by_token = [row for options in by_text for row in _engine_log_p(packed, options)]
        else:
            by_token = self._torch_log_p([option for options in by_text for option in options])
        log_p = [row.mean() if normalize == "mean" else row.sum() for row in by_token]
        return np.array(log_p, np.float64).reshape(len(texts), len(self.labels))

    def _torch_log_p(self, options: Sequence[_Option]) -> list[Scores]:
        """Return log p of each token after the context of each option."""
        by_token: list[Scores] = [np.empty(0)] * len(options)
        for batch in batches_by_length([option.ids for option in options], BATCH):
            log_p = self._batch_log_p([options[i] for i in batch])
            for i, own in zip(batch, log_p, strict=True):
                by_token[i] = own
        return by_token

    def _batch_log_p(self, options: Sequence[_Option]) -> list[Scores]:
        import torch

        from regard.data.batches.base import pad

        model, device = self.generator.model, self.generator.device
        ids, token_mask = pad([option.ids for option in options], self.generator.tokenizer.end)
        context = torch.tensor([option.context for option in options])
        is_scored = token_mask & (torch.arange(ids.size(1)) >= context[:, None])
        ids, is_scored = ids.to(device), is_scored[:, 1:].to(device)
        with torch.inference_mode():
            # Logits are the larger part of the work: only of the tokens that are scored.
            logits = model.output(model.states(ids[:, :-1])[is_scored]).float()
            log_p = logits.log_softmax(-1).gather(1, ids[:, 1:][is_scored][:, None])[:, 0]
        rows = log_p.double().cpu().split(is_scored.sum(1).tolist())
        return [row.numpy() for row in rows]

    def _options(self, text: str, number: int) -> list[_Option]:
        """Encode all continuations of a text.

        The context is the longest common prefix with the text alone: where letters on both sides of
        the border are one token, that token is scored, for all continuations.
        """
        prompt = self.template.replace(TEXT, text)
        rows = [self._encode(prompt + continuation) for continuation in self.continuations.values()]
        context = min(_common_prefix(self._encode(prompt), ids) for ids in rows)
        for label, ids in zip(self.labels, rows, strict=True):
            if len(ids) > self.generator.max_length:
                raise DataError(
                    f"text {number} with its template and the continuation of '{label}' has "
                    f"{len(ids):,} tokens and this model takes {self.generator.max_length:,}: "
                    f"shorten it."
                )
            if len(ids) == context:
                raise ConfigError(
                    f"the continuation of '{label}' has no token in this model's vocabulary: "
                    f"choose another."
                )
        return [_Option(ids, context) for ids in rows]

    def _encode(self, text: str) -> list[int]:
        """Return the ids of a text after the model's BOS tokens or the end of another text."""
        bos = self.generator.bos or [self.generator.tokenizer.end]
        return [*bos, *self.generator.tokenizer.encode(text)]


def _engine_log_p(model: FastLanguageModel, options: Sequence[_Option]) -> list[Scores]:
    """Return log p of each token after the context, which all options of a text share."""
    context = options[0].context
    ids, is_token = pad_rows([option.ids[context - 1 :] for option in options], 0)
    state = model.start()
    if context > 1:
        shared = np.array([options[0].ids[: context - 1]])
        state = model.prefill(shared, state)
        state = state.reorder(np.zeros(len(options), np.int64))
    logits, _ = model.extend(ids[:, :-1], state)
    *_, log_sums = rank(logits.reshape(-1, logits.shape[2]), 1)
    target_logits = np.take_along_axis(logits, ids[:, 1:, None], 2)[:, :, 0]
    log_p = target_logits.astype(np.float64) - log_sums.reshape(target_logits.shape)
    return [row[mask] for row, mask in zip(log_p, is_token[:, 1:], strict=True)]


def _common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the longest common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _check(template: str, continuations: Mapping[str, str], normalize: str) -> None:
    if not isinstance(continuations, Mapping):
        raise ConfigError(
            "continuations must be a mapping from each label to its continuation: "
            "{'good': ' great', 'bad': ' awful'}."
        )
    for text in (template, *continuations, *continuations.values()):
        if not isinstance(text, str):
            raise ConfigError(
                f"the template, the labels and their continuations must be str; {text!r} is "
                f"{type(text).__name__}."
            )
    if TEXT not in template:
        raise ConfigError(f"the template {template!r} has no {TEXT} in it, where the text goes.")
    if len(continuations) < 2:
        raise ConfigError(
            f"a choice needs two labels or more, each with its continuation; there "
            f"{'is one' if continuations else 'are none'}."
        )
    for label, continuation in continuations.items():
        if not continuation.strip():
            raise ConfigError(f"the continuation of '{label}' is empty: give it some text.")
    if len(set(continuations.values())) < len(continuations):
        raise ConfigError("two labels have the same continuation: give each its own.")
    if normalize not in get_args(Normalize):
        raise ConfigError(
            f"normalize is '{normalize}'; it may be {', '.join(get_args(Normalize))}."
        )
