"""A chooser: labels by likelihood.

A language model that never saw a label is asked which continuation of a text it finds likeliest.

    score(label) = log p(continuation | text in its template)     "total"
                   the same, by token                              "mean"
                   the same, less that after an empty text         "calibrated"

A model finds some words likelier than others whatever they follow, and long continuations less
likely than short ones. What is compared is then better how much likelier the text makes each: the
domain-conditional PMI of Holtzman et al. (2021), which chooses as the contextual calibration of
Zhao et al. (2021) does where nothing is their content-free text.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import torch

from regard.data.batches.base import pad
from regard.errors import ConfigError, DataError
from regard.predictors.classifier import Prediction
from regard.predictors.generator import TextGenerator

TEXT = "{text}"
ROWS = 32  # texts with a continuation, read at a time

Normalise = Literal["total", "mean", "calibrated"]


class Option(NamedTuple):
    """A text with one continuation, as ids, and how many of them are given."""

    ids: list[int]
    given: int


class ZeroShotClassifier:
    """ZeroShotClassifier(writer, "{text} It was", {"good": " great.", "bad": " terrible."})"""

    def __init__(
        self,
        writer: TextGenerator,
        template: str,
        continuations: Mapping[str, str],
        normalise: Normalise = "calibrated",
    ) -> None:
        _check(template, continuations, normalise)
        self.writer, self.template = writer, template
        self.labels = tuple(continuations)
        self.continuations = dict(continuations)
        self.normalise = normalise

    def classify(self, texts: Sequence[str]) -> list[Prediction]:
        """The likeliest label of each text, and how likely it is beside the others."""
        judged = []
        for row in self.probabilities(texts).tolist():
            label = self.labels[row.index(max(row))]
            judged.append(Prediction(label, max(row), dict(zip(self.labels, row, strict=True))))
        return judged

    def probabilities(self, texts: Sequence[str]) -> torch.Tensor:
        """Of each label (N, L), adding up to 1."""
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise DataError(f"text {number} is empty: there is nothing in it to judge.")
        return self.scores(texts).softmax(-1)

    def scores(self, texts: Sequence[str]) -> torch.Tensor:
        """Of each label (N, L), by what `normalise` asks for."""
        if self.normalise == "calibrated":
            *found, empty = self._log_p([*texts, ""], "total")
            return torch.stack(found) - empty if found else torch.empty(0, len(self.labels))
        return self._log_p(texts, self.normalise)

    @torch.inference_mode()
    def _log_p(self, texts: Sequence[str], normalise: Normalise) -> torch.Tensor:
        """Of each continuation of each text (N, L), in double precision."""
        options = [each for i, text in enumerate(texts, 1) for each in self._options(text, i)]
        found = torch.empty(len(options), dtype=torch.float64)
        order = sorted(range(len(options)), key=lambda i: len(options[i].ids))
        for start in range(0, len(options), ROWS):
            several = order[start : start + ROWS]
            for i, words in zip(several, self._words([options[i] for i in several]), strict=True):
                found[i] = words.mean() if normalise == "mean" else words.sum()
        return found.view(len(texts), len(self.labels))

    def _words(self, options: Sequence[Option]) -> list[torch.Tensor]:
        """log p of each token that is not given."""
        model = self.writer.model
        ids, token_mask = pad([each.ids for each in options], self.writer.tokenizer.end)
        given = torch.tensor([each.given for each in options])
        asked = token_mask & (torch.arange(ids.size(1)) >= given[:, None])
        device = next(model.parameters()).device
        ids, asked = ids.to(device), asked[:, 1:].to(device)
        # Logits are the larger part of the work: of what is asked only.
        logits = model.output(model.states(ids[:, :-1])[asked]).float()
        log_p = logits.log_softmax(-1).gather(1, ids[:, 1:][asked][:, None])[:, 0]
        return list(log_p.double().cpu().split(asked.sum(1).tolist()))

    def _options(self, text: str, number: int) -> list[Option]:
        """All continuations of a text. What is given is what all have in common with the text
        before them: where letters on both sides of the border make one piece, that piece is part of
        what is compared, for all alike."""
        before = self.template.replace(TEXT, text)
        wholes = [self._ids(before + each) for each in self.continuations.values()]
        given = min(_common(self._ids(before), whole) for whole in wholes)
        for label, whole in zip(self.labels, wholes, strict=True):
            if len(whole) > self.writer.max_length:
                raise DataError(
                    f"text {number} with its template and the continuation of '{label}' has "
                    f"{len(whole):,} tokens and this model takes {self.writer.max_length:,}: "
                    f"shorten it."
                )
            if len(whole) == given:
                raise ConfigError(
                    f"the continuation of '{label}' is nothing to this model: its tokeniser gives "
                    f"no piece for it."
                )
        return [Option(whole, given) for whole in wholes]

    def _ids(self, text: str) -> list[int]:
        """A text begins where another has ended."""
        begin = self.writer.begin or [self.writer.tokenizer.end]
        return [*begin, *self.writer.tokenizer.encode(text)]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two rows begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _check(template: str, continuations: Mapping[str, str], normalise: str) -> None:
    if TEXT not in template:
        raise ConfigError(f"the template {template!r} has no {TEXT} in it, where the text goes.")
    if len(continuations) < 2:
        raise ConfigError(
            f"a choice needs two labels or more, each with its continuation; there "
            f"{'is one' if continuations else 'are none'}."
        )
    for label, continuation in continuations.items():
        if not continuation.strip():
            raise ConfigError(f"the continuation of '{label}' is empty: say how a text goes on.")
    if len(set(continuations.values())) < len(continuations):
        raise ConfigError("two labels have the same continuation: nothing could tell them apart.")
    if normalise not in get_args(Normalise):
        raise ConfigError(
            f"normalise is '{normalise}'; it may be {', '.join(get_args(Normalise))}."
        )
