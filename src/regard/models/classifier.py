"""The classifier: an encoder reads, and the mean of its states is mapped to a score a class."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.models.encoder import Encoder, build_encoder
from regard.models.initialise import initialise
from regard.models.kept import keep_heads
from regard.models.transformer import TransformerSpec


class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, dropout: float, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = Dropout(dropout)
        self.output = output

    def forward(self, ids: Tensor, padding: Tensor) -> Tensor:
        """Logits (B, classes) of ids (B, T); padding (B, T) is True where a word is real."""
        real = padding.unsqueeze(-1)
        states = self.encoder(ids, padding) * real
        mean = states.sum(1) / real.sum(1)
        logits: Tensor = self.output(self.dropout(mean))
        return logits


class Spec(TransformerSpec):
    """model: {kind: classifier, classes: 2}"""

    can: ClassVar[frozenset[str]] = frozenset({"classify"})

    classes: int = Field(2, gt=1, description="how many; the labels of the training data decide")

    def build(self, vocabulary: int) -> Classifier:
        encoder = build_encoder(self, nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, self.classes)
        model = Classifier(encoder, self.dropout, output)
        initialise(model, self)
        keep_heads(model, self.kept_heads)
        return model
