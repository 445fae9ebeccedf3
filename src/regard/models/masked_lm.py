"""The masked model: an encoder reads a text with blanks, and says of each what stood there.

p(word) = softmax(E · t(h) + b)       E is the embedding, unless untied; t is nothing, or BERT's
t(h) = norm(g(W h + c))               transform (Devlin et al. 2019)
"""

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.layers.feedforward.base import ACTIVATIONS
from regard.models.base import Capability
from regard.models.encoder import Encoder, build_encoder
from regard.models.init_weights import initialise
from regard.models.prune import keep_heads
from regard.models.transformer import TransformerSpec


class Transform(nn.Module):
    def __init__(self, dim: int, activation: str, norm: nn.Module) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.activation = ACTIVATIONS[activation]
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        transformed: Tensor = self.norm(self.activation(self.dense(x)))
        return transformed


class MaskedLM(nn.Module):
    def __init__(self, encoder: Encoder, transform: nn.Module, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.transform = transform
        self.output = output

    def forward(self, ids: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of what stands at each of ids (B, T), some of which are masks;
        padding (B, T) is True where a word is real."""
        logits: Tensor = self.output(self.transform(self.encoder(ids, token_mask)))
        return logits

    def states(self, ids: Tensor, token_mask: Tensor, chosen: Tensor) -> Tensor:
        """What the output layer makes its logits of, where chosen (B, T) says so: (N, D)."""
        states: Tensor = self.transform(self.encoder(ids, token_mask)[chosen])
        return states


class Spec(TransformerSpec):
    """model: {kind: masked-lm}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"masked-lm"})

    tie_embeddings: bool = Field(
        True, description="the output layer shares the embedding's weights"
    )
    output_bias: bool = Field(True, description="a bias in the output layer")
    transform: Literal["none", "relu", "gelu", "gelu-tanh", "silu"] = Field(
        "none", description="a layer and a norm before the output, as in BERT, by its activation"
    )

    def build(self, vocabulary: int) -> MaskedLM:
        encoder = build_encoder(self, nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, vocabulary, self.output_bias)
        if self.tie_embeddings:
            output.weight = encoder.embedding.tokens.weight
        model = MaskedLM(encoder, self._transform(), output)
        initialise(model, self)
        keep_heads(model, self.retained_heads)
        return model

    def _transform(self) -> nn.Module:
        if self.transform == "none":
            return nn.Identity()
        return Transform(self.dim, self.transform, self.norm.build(self.dim))
