"""The encoder: a stack of blocks with bidirectional self-attention."""

from torch import Tensor, nn

from regard.attention.base import AttentionSpec
from regard.attention.masks import AttentionMask
from regard.models.embedding import Embedding
from regard.models.init_weights import initialized
from regard.models.transformer import TransformerSpec, embedding, encoder_blocks, final_norm
from regard.positions.trees import Trees


class Encoder(nn.Module):
    """A stack of encoder blocks over a token embedding."""

    def __init__(self, embedding: Embedding, blocks: nn.ModuleList, norm: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.norm = norm

    def forward(
        self, ids: Tensor, token_mask: Tensor | None = None, trees: Trees | None = None
    ) -> Tensor:
        """Compute hidden states.

        Args:
            ids: tokens (B, T).
            token_mask: (B, T), True = a real token; None if there is no padding.
            trees: dependency trees of the texts, for positions that need them.

        Returns:
            Hidden states (B, T, D).
        """
        x = self.embedding(ids, trees=trees)
        mask = AttentionMask.bidirectional(ids.size(1), ids.device, token_mask, trees)
        for block in self.blocks:
            x = block(x, mask)
        states: Tensor = self.norm(x)
        return states


class Spec(TransformerSpec):
    """model: {kind: encoder}"""

    def build(self, vocabulary: int) -> Encoder:
        return initialized(build_encoder(self, nn.Embedding(vocabulary, self.dim)), self)


def build_encoder(
    spec: TransformerSpec, tokens: nn.Embedding, attention: AttentionSpec | None = None
) -> Encoder:
    """Build an encoder; `attention` replaces the attention kind of the rest of the model."""
    blocks = encoder_blocks(spec, attention or spec.attention)
    return Encoder(embedding(spec, tokens), blocks, final_norm(spec))
