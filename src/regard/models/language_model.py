"""The causal language model: a decoder without a source, which continues a text token by token."""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from regard.models.autoregressive import Autoregressive
from regard.models.base import Capability
from regard.models.baselines.recurrent_layers import RecurrentStack
from regard.models.decoder import Decoder, build_decoder
from regard.models.init_weights import initialized
from regard.models.transformer import TransformerSpec


class LanguageModel(Autoregressive):
    """A causal language model over any decoder: Transformer, convolutional or recurrent."""

    decoder: Decoder | RecurrentStack

    def __init__(self, decoder: Decoder | RecurrentStack) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, ids: Tensor, documents: Tensor | None = None) -> Tensor:
        """Compute the logits of the token after each token.

        Args:
            ids: tokens (B, T), padded on the right.
            documents: the document number of each token (B, T), where a row holds several; no
                token then attends to another document.

        Returns:
            Logits (B, T, V).
        """
        logits: Tensor = self.output(self.states(ids, documents))
        return logits

    def states(
        self, ids: Tensor, documents: Tensor | None = None, needed: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) before the output layer.

        They are defined where `needed` (B, T) is True; None means everywhere.
        """
        states: Tensor = self.decoder(ids, self.start(), documents, needed)[0]
        return states

    def start(self) -> Any:
        """Return the state before the first token."""
        return self.decoder.start()


class Spec(TransformerSpec):
    """model: {kind: language-model}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"causal-lm"})

    tie_embeddings: bool = Field(
        True, description="the output layer shares the embedding's weights"
    )
    output_bias: bool = Field(False, description="a bias in the output layer")

    def build(self, vocabulary: int) -> LanguageModel:
        decoder = build_decoder(self, vocabulary, self.tie_embeddings, self.output_bias)
        return initialized(LanguageModel(decoder), self)
