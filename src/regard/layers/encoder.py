"""The encoder block: bidirectional self-attention, then a feed-forward network."""

from collections.abc import Callable

from torch import Tensor, nn

from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.layers.base import ResidualModule
from regard.layers.residual import Residual


class EncoderBlock(ResidualModule):
    def __init__(
        self, attention: MultiHead, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual = residual()
        self.feed_forward_residual = residual()

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        attention_in = self.attention_residual.sublayer_input(x)
        q, cache = self.attention.project_qkv(attention_in, mask.queries)
        x = self.attention_residual.add(x, self.attention(q, cache, mask))
        ffn_in = self.feed_forward_residual.sublayer_input(x)
        ffn_out = self.feed_forward(ffn_in, mask.token_mask)
        return self.feed_forward_residual.add(x, ffn_out)
