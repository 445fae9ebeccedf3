"""The convolutional baseline: stacked gated convolutions, as a language model or a classifier.

The receptive field grows with the number of layers: a token depends on others at most `reach`
tokens away. A convolution knows the order of its inputs, so that no positions are needed.
"""

from typing import ClassVar, Self

from pydantic import Field, model_validator
from torch import nn

from regard.config import kind_field
from regard.layers.convolution import CausalConvolution, CenteredConvolution, GatedConvolution
from regard.layers.norms.base import NormSpec
from regard.layers.residual import Residual
from regard.models.base import Capability
from regard.models.baselines.base import BaselineSpec
from regard.models.classifier import ClassifierModel
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.init_weights import initialize
from regard.models.language_model import LanguageModel


class Spec(BaselineSpec):
    """model: {kind: convolutional, window: 5, layers: 4}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {"causal-lm", "sequence-classification"}
    )

    layers: int = Field(4, gt=0, le=10_000, description="layers in the stack")
    window: int = Field(
        5,
        gt=1,
        le=1 << 10,
        description="kernel size in tokens; causal for a language model, centered for a classifier",
    )
    norm: NormSpec = kind_field(NormSpec, "a kind in layers/norms/")

    @model_validator(mode="after")
    def _centered_window_is_odd(self) -> Self:
        if self.capability == "sequence-classification" and self.window % 2 == 0:
            raise ValueError(
                f"window: a classifier needs an odd window, centered on its token: choose "
                f"{self.window - 1} or {self.window + 1}, not {self.window}"
            )
        return self

    @property
    def reach(self) -> int:
        """Largest distance of a token that has influence; in a classifier, on either side."""
        if self.capability == "sequence-classification":
            return self.layers * (self.window // 2)
        return self.layers * (self.window - 1)

    def build_causal_lm(self, vocabulary: int) -> LanguageModel:
        tokens = nn.Embedding(vocabulary, self.dim)
        blocks = nn.ModuleList(
            CausalConvolution(GatedConvolution(self.dim, self.window), self._residual())
            for _ in range(self.layers)
        )
        model = LanguageModel(
            Decoder(self.embedding(tokens), blocks, self.norm.build(self.dim), self.output(tokens))
        )
        initialize(model, self.dim**-0.5)
        return model

    def build_classifier(self, vocabulary: int) -> ClassifierModel:
        blocks = nn.ModuleList(
            CenteredConvolution(GatedConvolution(self.dim, self.window), self._residual())
            for _ in range(self.layers)
        )
        encoder = Encoder(
            self.embedding(nn.Embedding(vocabulary, self.dim)), blocks, self.norm.build(self.dim)
        )
        output = nn.Linear(self.dim, self.classes)
        model = ClassifierModel(encoder, self.pooling.build(self.dim), self.dropout, output)
        initialize(model, self.dim**-0.5)
        return model

    def _residual(self) -> Residual:
        return Residual(self.norm.build(self.dim), norm_first=True, dropout=self.dropout)
