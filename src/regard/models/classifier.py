"""The classifier: an encoder reads, and its states, pooled, are mapped to a score a class."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from regard.config import kind_field
from regard.layers.dropout import Dropout
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import Capability
from regard.models.encoder import build_encoder
from regard.models.init_weights import initialise
from regard.models.prune import keep_heads
from regard.models.transformer import TransformerSpec
from regard.positions.trees import Trees


class ClassifierModel(nn.Module):
    def __init__(
        self, encoder: nn.Module, pool: nn.Module, dropout: float, output: nn.Linear
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pool = pool
        self.dropout = Dropout(dropout)
        self.output = output

    def forward(self, ids: Tensor, token_mask: Tensor, trees: Trees | None = None) -> Tensor:
        """Logits (B, classes) of ids (B, T); padding (B, T) is True where a word is real."""
        # Only a Transformer's encoder takes trees, and only such a model is given any.
        read = (ids, token_mask) if trees is None else (ids, token_mask, trees)
        pooled = self.pool(self.encoder(*read), token_mask)
        logits: Tensor = self.output(self.dropout(pooled))
        return logits


class Spec(TransformerSpec):
    """model: {kind: classifier, pooling: attention}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"sequence-classification"})

    pooling: PoolingSpec = kind_field(PoolingSpec, "a kind in blocks/pooling/")
    classes: int = Field(2, gt=1, description="how many; the labels of the training data decide")

    def build(self, vocabulary: int) -> ClassifierModel:
        encoder = build_encoder(self, nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, self.classes)
        model = ClassifierModel(encoder, self.pooling.build(self.dim), self.dropout, output)
        initialise(model, self)
        keep_heads(model, self.retained_heads)
        return model
