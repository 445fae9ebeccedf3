"""The encoder block: look around, then think each word over."""

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
        self.around_attention = residual()
        self.around_feed_forward = residual()

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        q, cache = self.attention.project_qkv(self.around_attention.enter(x), mask.queries)
        x = self.around_attention.leave(x, self.attention(q, cache, mask))
        thought = self.feed_forward(self.around_feed_forward.enter(x), mask.token_mask)
        return self.around_feed_forward.leave(x, thought)
