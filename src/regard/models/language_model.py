"""The language model: a decoder alone, of whatever blocks, which continues a text word by word."""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from regard.models.base import Capability
from regard.models.baselines.recurrent_layers import RecurrentStack
from regard.models.decoder import Decoder
from regard.models.init_weights import initialise
from regard.models.prune import keep_heads
from regard.models.transformer import TransformerSpec, decoder_blocks, embedding, final_norm


class LanguageModel(nn.Module):
    def __init__(self, decoder: Decoder | RecurrentStack) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, ids: Tensor, documents: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of the word after each of ids (B, T), which are padded on the right.

        A row is one document, or several, numbered (B, T), each as if it were alone.
        """
        logits: Tensor = self.output(self.states(ids, documents))
        return logits

    @property
    def output(self) -> nn.Linear:
        return self.decoder.output

    def states(
        self, ids: Tensor, documents: Tensor | None = None, needed: Tensor | None = None
    ) -> Tensor:
        """What the output layer makes its logits of: (B, T, D), where it is counted (B, T)."""
        states: Tensor = self.decoder(ids, self.start(), documents, needed)[0]
        return states

    def start(self) -> Any:
        """The state before anything was read."""
        return self.decoder.start()

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, V) after one more word each, ids (B,), and the state after it."""
        logits, state = self.extend(ids[:, None], state)
        return logits[:, -1], state

    def extend(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, T, V) after each of several words, ids (B, T), and the state after them."""
        states, state = self.decoder(ids, state)
        return self.output(states), state


class Spec(TransformerSpec):
    """model: {kind: language-model}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"causal-lm"})

    tie_embeddings: bool = Field(
        True, description="the output layer shares the embedding's weights"
    )
    output_bias: bool = Field(False, description="a bias in the output layer")

    def build(self, vocabulary: int) -> LanguageModel:
        tokens = nn.Embedding(vocabulary, self.dim)
        output = nn.Linear(self.dim, vocabulary, self.output_bias)
        if self.tie_embeddings:
            output.weight = tokens.weight
        blocks = decoder_blocks(self, self.layers)
        model = LanguageModel(Decoder(embedding(self, tokens), blocks, final_norm(self), output))
        initialise(model, self)
        keep_heads(model, self.retained_heads)
        return model
