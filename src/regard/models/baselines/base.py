"""A family of models: one kind that can be made to do several things.

    model: {kind: recurrent}        translates, continues text or classifies, as the job asks

The Transformer has a kind for each form, as it is taught; what came before it is here to be put in
its place in any recipe, so that the kind is the only change.
"""

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field
from torch import nn

from regard.config import kind_field, validate
from regard.errors import ConfigError
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import ModelSpec
from regard.models.embedding import Embedding
from regard.positions.base import AtEmbedding

Does = Literal["translate", "continue text", "classify"]


class FamilySpec(ModelSpec):
    """Settings of every family. Of the builders below, a family has those for what it `can`."""

    can: ClassVar[frozenset[str]]

    does: Does | None = Field(None, description="what for; the job decides")
    dim: int = Field(256, gt=0, description="D, the model size")
    layers: int = Field(1, gt=0, description="layers in the stack (in each stack, where two)")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and each layer's output")
    tie: bool = Field(True, description="the output layer shares the (target) embedding's weights")
    pooling: PoolingSpec = kind_field(PoolingSpec, "a kind in blocks/pooling/, to classify")
    classes: int = Field(2, gt=1, description="how many; the labels of the training data decide")

    def meant_for(self, does: str) -> "FamilySpec":
        return validate(type(self), {**dict(self), "does": does}, "model")

    def build(self, vocabulary: int) -> nn.Module:
        builders: dict[str, Callable[[int], nn.Module]] = {
            "translate": self.translator,
            "continue text": self.writer,
            "classify": self.labeller,
        }
        if self.does not in self.can:
            able = " or ".join(f"'{each}'" for each in sorted(self.can))
            raise ConfigError(
                f"model.does: a {self.kind()} must be told what for ({able}); its job does."
            )
        return builders[self.does](vocabulary)

    def embedding(self, tokens: nn.Embedding) -> Embedding:
        """Words without places, scaled as in the Transformer."""
        return Embedding(tokens, AtEmbedding(), self.dim**0.5, nn.Identity(), self.dropout)

    def output(self, tokens: nn.Embedding) -> nn.Linear:
        output = nn.Linear(self.dim, tokens.num_embeddings, bias=False)
        if self.tie:
            output.weight = tokens.weight
        return output

    def translator(self, vocabulary: int) -> nn.Module:
        """A Stepper that reads a source first, as `encoder_decoder.EncoderDecoder` does."""
        raise NotImplementedError

    def writer(self, vocabulary: int) -> nn.Module:
        """A Stepper over running text, as `language_model.LanguageModel` is."""
        raise NotImplementedError

    def labeller(self, vocabulary: int) -> nn.Module:
        """From ids (B, T) and their padding to logits (B, classes)."""
        raise NotImplementedError
