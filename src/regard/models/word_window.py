"""Word windows: stacked convolutions over words, as a language model or a classifier.

A word is reached from another only through layers in between, each of which carries over a window:
`reach` words at most. Order is in the windows, so that no positions are needed.
"""

from typing import ClassVar

from pydantic import Field
from torch import nn

from regard.blocks.norms import NormSpec
from regard.blocks.residual import Residual
from regard.blocks.window import CausalWindow, CentredWindow, Window
from regard.config import kind_field
from regard.errors import ConfigError
from regard.models.classifier import Classifier
from regard.models.decoder import Decoder
from regard.models.embedding import Embedding
from regard.models.encoder import Encoder
from regard.models.family import FamilySpec
from regard.models.language_model import LanguageModel
from regard.positions.sites import AtEmbedding


class Spec(FamilySpec):
    """model: {kind: word-window, window: 5, layers: 4}"""

    can: ClassVar[frozenset[str]] = frozenset({"continue text", "classify"})

    layers: int = Field(4, gt=0, description="layers in the stack")
    window: int = Field(5, gt=1, description="words that a layer sees: a word, and those before it")
    norm: NormSpec = kind_field(NormSpec, "a kind in blocks/norms/")

    @property
    def reach(self) -> int:
        """How many words away another can make a difference: before, or (classify) either side."""
        across = self.window // 2 if self.does == "classify" else self.window - 1
        return self.layers * across

    def writer(self, vocabulary: int) -> LanguageModel:
        embedding = self._embedding(vocabulary)
        output = nn.Linear(self.dim, vocabulary, bias=False)
        if self.tie:
            output.weight = embedding.tokens.weight
        blocks = nn.ModuleList(
            CausalWindow(Window(self.dim, self.window), self._residual())
            for _ in range(self.layers)
        )
        model = LanguageModel(Decoder(embedding, blocks, self.norm.build(self.dim), output))
        self._initialise(model)
        return model

    def labeller(self, vocabulary: int) -> Classifier:
        if self.window % 2 == 0:
            raise ConfigError(
                f"model.window: a window around a word has a middle: choose "
                f"{self.window - 1} or {self.window + 1}, not {self.window}, to classify."
            )
        blocks = nn.ModuleList(
            CentredWindow(Window(self.dim, self.window), self._residual())
            for _ in range(self.layers)
        )
        encoder = Encoder(self._embedding(vocabulary), blocks, self.norm.build(self.dim))
        output = nn.Linear(self.dim, self.classes)
        model = Classifier(encoder, self.pooling.build(self.dim), self.dropout, output)
        self._initialise(model)
        return model

    def _embedding(self, vocabulary: int) -> Embedding:
        tokens = nn.Embedding(vocabulary, self.dim)
        return Embedding(tokens, AtEmbedding(), self.dim**0.5, nn.Identity(), self.dropout)

    def _residual(self) -> Residual:
        return Residual(self.norm.build(self.dim), norm_first=True, dropout=self.dropout)

    def _initialise(self, model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # After the matrices: a tied output layer is an embedding first, of variance 1 when scaled.
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.dim**-0.5)
