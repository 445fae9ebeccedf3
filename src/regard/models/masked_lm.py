"""The masked language model (Devlin et al. 2019): an encoder that predicts masked tokens.

p(token) = softmax(E · t(h) + b)      E: the embedding, unless untied; t: identity, or BERT's
t(h) = norm(g(W h + c))               transform
"""

from typing import ClassVar

from pydantic import Field, field_validator
from torch import Tensor, nn

from regard.layers.activations.base import ActivationSpec
from regard.models.base import Capability
from regard.models.encoder import Encoder, build_encoder
from regard.models.init_weights import initialized
from regard.models.transformer import TransformerSpec


class Transform(nn.Module):
    """BERT's layer before the output: t(h) = norm(g(W h + c))."""

    def __init__(self, dim: int, activation: ActivationSpec, norm: nn.Module) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.activation = activation.function()
        self.engine_activation = activation.engine_code
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        transformed: Tensor = self.norm(self.activation(self.dense(x)))
        return transformed


class MaskedLM(nn.Module):
    """An encoder with a linear layer to the vocabulary."""

    def __init__(self, encoder: Encoder, transform: nn.Module, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.transform = transform
        self.output = output

    def forward(self, ids: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Compute the logits of the original token at each position.

        Args:
            ids: tokens (B, T), some of them replaced by the mask token.
            token_mask: (B, T), True = a real token; None if there is no padding.

        Returns:
            Logits (B, T, V).
        """
        logits: Tensor = self.output(self.transform(self.encoder(ids, token_mask)))
        return logits

    def states(self, ids: Tensor, token_mask: Tensor, masked_positions: Tensor) -> Tensor:
        """Hidden states (N, D) before the output layer, at the N positions where
        `masked_positions` (B, T) is True."""
        states: Tensor = self.transform(self.encoder(ids, token_mask)[masked_positions])
        return states


class Spec(TransformerSpec):
    """model: {kind: masked-lm}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"masked-lm"})

    tie_embeddings: bool = Field(
        True, description="the output layer shares the embedding's weights"
    )
    output_bias: bool = Field(True, description="a bias in the output layer")
    transform: str = Field(
        "none",
        description="activation of BERT's layer before the output (a kind in layers/activations/), "
        "or none for no such layer",
    )

    @field_validator("transform")
    @classmethod
    def _is_an_activation(cls, transform: str) -> str:
        if transform != "none":
            ActivationSpec.model_validate(transform)
        return transform

    def build(self, vocabulary: int) -> MaskedLM:
        encoder = build_encoder(self, nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, vocabulary, self.output_bias)
        if self.tie_embeddings:
            output.weight = encoder.embedding.tokens.weight
        return initialized(MaskedLM(encoder, self._transform(), output), self)

    def _transform(self) -> nn.Module:
        if self.transform == "none":
            return nn.Identity()
        activation = ActivationSpec.model_validate(self.transform)
        return Transform(self.dim, activation, self.norm.build(self.dim))
