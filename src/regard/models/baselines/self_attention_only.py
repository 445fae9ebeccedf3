"""The self-attention-only baseline: self-attention without projections, feed-forward or positions.

Only the embedding and the output layer have parameters. Without positions, a prefix is a bag of
tokens. The result is an average of embeddings, so that an output layer tied to them would mostly
predict tokens of the input: by default it is not tied.
"""

from typing import ClassVar

from pydantic import Field
from torch import nn

from regard.layers.self_attention_only import ParameterFreeDecoderBlock, ParameterFreeEncoderBlock
from regard.models.base import Capability
from regard.models.baselines.base import BaselineSpec
from regard.models.classifier import ClassifierModel
from regard.models.decoder import Decoder
from regard.models.embedding import Embedding
from regard.models.encoder import Encoder
from regard.models.language_model import LanguageModel
from regard.positions.base import AtEmbedding


class Spec(BaselineSpec):
    """model: {kind: self-attention-only}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {"causal-lm", "sequence-classification"}
    )

    tie_embeddings: bool = Field(
        False, description="the output layer shares the embedding's weights"
    )

    @property
    def can_overfit(self) -> bool:
        # The next token depends on the order of the tokens, which this model does not know.
        return self.capability == "sequence-classification"

    def build_causal_lm(self, vocabulary: int) -> LanguageModel:
        embedding = self._embedding(vocabulary)
        output = self.output(embedding.tokens)
        blocks = nn.ModuleList(ParameterFreeDecoderBlock() for _ in range(self.layers))
        return LanguageModel(Decoder(embedding, blocks, nn.Identity(), output))

    def build_classifier(self, vocabulary: int) -> ClassifierModel:
        blocks = nn.ModuleList(ParameterFreeEncoderBlock() for _ in range(self.layers))
        encoder = Encoder(self._embedding(vocabulary), blocks, nn.Identity())
        output = nn.Linear(self.dim, self.classes)
        return ClassifierModel(encoder, self.pooling.build(self.dim), self.dropout, output)

    def _embedding(self, vocabulary: int) -> Embedding:
        """Vectors of norm about 1, so that the initial attention is almost uniform."""
        tokens = nn.Embedding(vocabulary, self.dim)
        nn.init.normal_(tokens.weight, std=self.dim**-0.5)
        return Embedding(tokens, AtEmbedding(), 1.0, nn.Identity(), self.dropout)
