"""The encoder-decoder (Vaswani et al. 2017): an encoder for the source, and a decoder that attends
to it by cross-attention."""

from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.attention.base import AttentionSpec
from regard.models.autoregressive import Seq2SeqModel
from regard.models.base import Capability
from regard.models.baselines.recurrent_layers import RecurrentDecoder, RecurrentEncoder
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder, build_encoder
from regard.models.init_weights import initialized
from regard.models.transformer import TransformerSpec, decoder_blocks, embedding, final_norm


class EncoderDecoder(Seq2SeqModel):
    """A sequence-to-sequence model of an encoder and a decoder, Transformer or recurrent."""

    single_sequence: ClassVar[bool] = False
    decoder: Decoder | RecurrentDecoder

    def __init__(
        self, encoder: Encoder | RecurrentEncoder, decoder: Decoder | RecurrentDecoder
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor:
        states: Tensor = self.decoder(target, self.start(source, source_mask), needed=needed)[0]
        return states

    def start(self, source: Tensor, source_mask: Tensor) -> Any:
        """Encode the source (B, S) and return the decoder's state before the first token."""
        return self.decoder.encode_source(self.encoder, source, source_mask)


class Spec(TransformerSpec):
    """model: {kind: encoder-decoder}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"seq2seq"})

    decoder_layers: int | None = Field(
        None, gt=0, le=10_000, description="decoder blocks (default: `layers`)"
    )
    encoder_attention: AttentionSpec | None = Field(
        None, description="the encoder's kind in attention/ (default: `attention`)"
    )
    cross_attention: AttentionSpec | None = Field(
        None, description="the kind of cross-attention (default: `attention`)"
    )
    tie_embeddings: Literal["all", "embeddings", "output", "none"] = Field(
        "all",
        description="shared weights: all = source and target embeddings and the output "
        "layer; embeddings = source and target; output = target and output layer; none",
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
        encoder = build_encoder(self, source, self.encoder_attention)
        return initialized(EncoderDecoder(encoder, decoder), self)
