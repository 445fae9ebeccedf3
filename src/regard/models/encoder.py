"""The encoder: a stack of blocks in which every word looks at every other, both ways."""

from torch import Tensor, nn

from regard.attention.base import AttentionSpec
from regard.attention.masks import AttentionMask
from regard.models.embedding import Embedding
from regard.models.init_weights import initialise
from regard.models.prune import keep_heads
from regard.models.transformer import TransformerSpec, embedding, encoder_blocks, final_norm
from regard.positions.trees import Trees


class Encoder(nn.Module):
    def __init__(self, embedding: Embedding, blocks: nn.ModuleList, norm: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.norm = norm

    def forward(
        self, ids: Tensor, token_mask: Tensor | None = None, trees: Trees | None = None
    ) -> Tensor:
        """States (B, T, D) of ids (B, T); padding (B, T) is True where a word is real."""
        x = self.embedding(ids, trees=trees)
        mask = AttentionMask.bidirectional(ids.size(1), ids.device, token_mask, trees)
        for block in self.blocks:
            x = block(x, mask)
        states: Tensor = self.norm(x)
        return states


class Spec(TransformerSpec):
    """model: {kind: encoder}"""

    def build(self, vocabulary: int) -> Encoder:
        encoder = build_encoder(self, nn.Embedding(vocabulary, self.dim))
        initialise(encoder, self)
        keep_heads(encoder, self.retained_heads)
        return encoder


def build_encoder(
    spec: TransformerSpec, tokens: nn.Embedding, attention: AttentionSpec | None = None
) -> Encoder:
    """An encoder, with another attention than the rest of its model if one is given."""
    blocks = encoder_blocks(spec, attention or spec.attention)
    return Encoder(embedding(spec, tokens), blocks, final_norm(spec))
