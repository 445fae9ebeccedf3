"""Base class of the baselines: one model kind with several capabilities.

    model: {kind: recurrent}        translates, continues text or classifies, as the task requires

A Transformer has one kind per architecture (encoder-decoder, language-model, …). A baseline is
a single kind, so that replacing a Transformer by a baseline changes only the kind in the recipe.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from pydantic import Field
from torch import nn

from regard.config import kind_field, validate
from regard.errors import ConfigError
from regard.layers.pooling.base import PoolingSpec
from regard.models.base import Capability, ModelSpec
from regard.models.embedding import Embedding
from regard.positions.base import AtEmbedding


class BaselineSpec(ModelSpec):
    """Settings of every baseline. A subclass overrides the builder of each of its capabilities."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "does": "capability",
        "tie": "tie_embeddings",
    }

    capability: Capability | None = Field(
        None, description="the architecture to build; set by the task"
    )
    dim: int = Field(256, gt=0, le=1 << 20, description="D, the model size")
    layers: int = Field(1, gt=0, le=10_000, description="layers of each stack")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and each layer's output")
    tie_embeddings: bool = Field(
        True, description="the output layer shares the (target) embedding's weights"
    )
    pooling: PoolingSpec = kind_field(PoolingSpec, "a kind in layers/pooling/, to classify")
    classes: int = Field(
        2, gt=1, description="number of classes; set to the number of labels in the training data"
    )

    def for_capability(self, capability: Capability) -> "BaselineSpec":
        return validate(type(self), {**dict(self), "capability": capability}, "model")

    def build(self, vocabulary: int) -> nn.Module:
        builders: dict[Capability, Callable[[int], nn.Module]] = {
            "seq2seq": self.build_seq2seq,
            "causal-lm": self.build_causal_lm,
            "sequence-classification": self.build_classifier,
        }
        if self.capability not in self.capabilities:
            supported = " or ".join(f"'{name}'" for name in sorted(self.capabilities))
            raise ConfigError(
                f"model.capability: a {self.kind()} needs one of its capabilities ({supported}); "
                f"the task sets it."
            )
        return builders[self.capability](vocabulary)

    def embedding(self, tokens: nn.Embedding) -> Embedding:
        """Token embedding without positions, scaled by √D as in the Transformer."""
        return Embedding(tokens, AtEmbedding(), self.dim**0.5, nn.Identity(), self.dropout)

    def output(self, tokens: nn.Embedding) -> nn.Linear:
        """Output layer to the vocabulary, tied to the embedding if `tie_embeddings` is set."""
        output = nn.Linear(self.dim, tokens.num_embeddings, bias=False)
        if self.tie_embeddings:
            output.weight = tokens.weight
        return output

    def build_seq2seq(self, vocabulary: int) -> nn.Module:
        """Build a model with the interface of `encoder_decoder.EncoderDecoder`."""
        raise NotImplementedError

    def build_causal_lm(self, vocabulary: int) -> nn.Module:
        """Build a model with the interface of `language_model.LanguageModel`."""
        raise NotImplementedError

    def build_classifier(self, vocabulary: int) -> nn.Module:
        """Build a model with the interface of `classifier.ClassifierModel`."""
        raise NotImplementedError
