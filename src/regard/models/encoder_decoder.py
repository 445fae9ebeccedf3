"""The encoder-decoder: an encoder reads the source, a decoder looks across at it and writes."""

from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.attention.base import AttentionSpec
from regard.models.base import Capability
from regard.models.baselines.recurrent_layers import RecurrentDecoder, RecurrentEncoder
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder, build_encoder
from regard.models.init_weights import initialise
from regard.models.prune import keep_heads
from regard.models.transformer import TransformerSpec, decoder_blocks, embedding, final_norm


class EncoderDecoder(nn.Module):
    single_sequence: ClassVar[bool] = False

    def __init__(
        self, encoder: Encoder | RecurrentEncoder, decoder: Decoder | RecurrentDecoder
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) of the word after each of target (B, T), given source (B, S).

        padding (B, S) is True where a source word is real; targets are padded on the right.
        """
        logits: Tensor = self.output(self.states(source, source_mask, target))
        return logits

    @property
    def output(self) -> nn.Linear:
        return self.decoder.output

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor:
        """What the output layer makes its logits of: (B, T, D), where it is counted (B, T)."""
        states: Tensor = self.decoder(target, self.start(source, source_mask), needed=needed)[0]
        return states

    def start(self, source: Tensor, source_mask: Tensor) -> Any:
        """Read the source; how it is remembered is the decoder's affair."""
        return self.decoder.read(self.encoder, source, source_mask)

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, V) after one more word each, ids (B,), and the state after it."""
        logits, state = self.extend(ids[:, None], state)
        return logits[:, -1], state

    def extend(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, T, V) after each of several words, ids (B, T), and the state after them."""
        states, state = self.decoder(ids, state)
        return self.output(states), state


class Spec(TransformerSpec):
    """model: {kind: encoder-decoder}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"seq2seq"})

    decoder_layers: int | None = Field(None, gt=0, description="as many as `layers` unless given")
    encoder_attention: AttentionSpec | None = Field(
        None, description="the encoder's, a kind in attention/; that of `attention` unless given"
    )
    cross_attention: AttentionSpec | None = Field(
        None, description="the decoder's at its source; that of `attention` unless given"
    )
    tie_embeddings: Literal["all", "embeddings", "output", "none"] = Field(
        "all",
        description="which share weights: source, target and output; source and target; target and "
        "output; none",
    )
    output_bias: bool = Field(False, description="a bias in the output layer")

    def build(self, vocabulary: int) -> EncoderDecoder:
        target = nn.Embedding(vocabulary, self.dim)
        shared = self.tie_embeddings in ("all", "embeddings")
        source = target if shared else nn.Embedding(vocabulary, self.dim)
        output = nn.Linear(self.dim, vocabulary, self.output_bias)
        if self.tie_embeddings in ("all", "output"):
            output.weight = target.weight
        cross = self.cross_attention or self.attention
        blocks = decoder_blocks(self, self.decoder_layers or self.layers, cross)
        decoder = Decoder(embedding(self, target), blocks, final_norm(self), output)
        model = EncoderDecoder(build_encoder(self, source, self.encoder_attention), decoder)
        initialise(model, self)
        keep_heads(model, self.retained_heads)
        return model
