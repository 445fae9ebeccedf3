"""Bare self-attention as a whole model: embeddings alone drive it.

Beside the embeddings only the output layer has parameters, and in a language model that is tied
not even that. Without positions the words before a place are a bag to it.
"""

from typing import ClassVar

from torch import nn

from regard.blocks.bare import BareLookAround, BareLookBack
from regard.models.classifier import Classifier
from regard.models.decoder import Decoder
from regard.models.embedding import Embedding
from regard.models.encoder import Encoder
from regard.models.family import FamilySpec
from regard.models.language_model import LanguageModel
from regard.positions.sites import AtEmbedding


class Spec(FamilySpec):
    """model: {kind: bare}"""

    can: ClassVar[frozenset[str]] = frozenset({"continue text", "classify"})

    def writer(self, vocabulary: int) -> LanguageModel:
        embedding = self._embedding(vocabulary)
        output = nn.Linear(self.dim, vocabulary, bias=False)
        if self.tie:
            output.weight = embedding.tokens.weight
        blocks = nn.ModuleList(BareLookBack() for _ in range(self.layers))
        return LanguageModel(Decoder(embedding, blocks, nn.Identity(), output))

    def labeller(self, vocabulary: int) -> Classifier:
        blocks = nn.ModuleList(BareLookAround() for _ in range(self.layers))
        encoder = Encoder(self._embedding(vocabulary), blocks, nn.Identity())
        output = nn.Linear(self.dim, self.classes)
        return Classifier(encoder, self.pooling.build(self.dim), self.dropout, output)

    def _embedding(self, vocabulary: int) -> Embedding:
        """Vectors of length about 1, so that at first all words look at all almost alike."""
        tokens = nn.Embedding(vocabulary, self.dim)
        nn.init.normal_(tokens.weight, std=self.dim**-0.5)
        return Embedding(tokens, AtEmbedding(), 1.0, nn.Identity(), self.dropout)
