"""The sequence classifier: an encoder, a pooling of its states, a linear layer to the classes."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from regard.config import kind_field
from regard.layers.dropout import Dropout
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import Capability
from regard.models.encoder import build_encoder
from regard.models.init_weights import initialized
from regard.models.transformer import TransformerSpec
from regard.positions.trees import Trees


class ClassifierModel(nn.Module):
    """A sequence classifier over any encoder: Transformer, convolutional or recurrent."""

    def __init__(
        self, encoder: nn.Module, pool: nn.Module, dropout: float, output: nn.Linear
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pool = pool
        self.dropout = Dropout(dropout)
        self.output = output

    def forward(self, ids: Tensor, token_mask: Tensor, trees: Trees | None = None) -> Tensor:
        """Compute the logits of the classes.

        Args:
            ids: tokens (B, T).
            token_mask: (B, T), True = a real token.
            trees: dependency trees of the texts, for positions that need them.

        Returns:
            Logits (B, classes).
        """
        # Only the encoder of a Transformer takes trees.
        inputs = (ids, token_mask) if trees is None else (ids, token_mask, trees)
        pooled = self.pool(self.encoder(*inputs), token_mask)
        logits: Tensor = self.output(self.dropout(pooled))
        return logits


class Spec(TransformerSpec):
    """model: {kind: classifier, pooling: attention}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"sequence-classification"})

    pooling: PoolingSpec = kind_field(PoolingSpec, "a kind in layers/pooling/")
    classes: int = Field(
        2, gt=1, description="number of classes; set to the number of labels in the training data"
    )

    def build(self, vocabulary: int) -> ClassifierModel:
        encoder = build_encoder(self, nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, self.classes)
        model = ClassifierModel(encoder, self.pooling.build(self.dim), self.dropout, output)
        return initialized(model, self)
