"""A labeller: texts to labels, with probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from regard.data.batching import pad
from regard.data.tokenizer import Tokenizer
from regard.decoding.texts import whole_text

BATCH = 64


@dataclass(frozen=True)
class Judgement:
    label: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)  # of every label


class Labeller:
    """What `regard.load` gives for a run of the classification job."""

    def __init__(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Sequence[str], max_length: int
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.max_length = max_length

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Judgement]:
        """The likeliest label of each text, and how likely it is."""
        rows = [self.ids(text, number) for number, text in enumerate(texts, start=1)]
        device = next(self.model.parameters()).device
        judged = []
        for start in range(0, len(rows), BATCH):
            ids, real = pad(rows[start : start + BATCH], self.tokenizer.pad)
            likelihood = self.model(ids.to(device), real.to(device)).softmax(-1).max(-1)
            judged += [
                Judgement(self.labels[label], probability)
                for probability, label in zip(*map(torch.Tensor.tolist, likelihood), strict=True)
            ]
        return judged

    def ids(self, text: str, number: int = 1) -> list[int]:
        """What this model is given for a text; refuses what it cannot take."""
        return whole_text(text, number, self.tokenizer, self.max_length)
