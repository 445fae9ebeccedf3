"""Gated convolutions over tokens: each token is computed from its neighbors within a window.

    y_t = x_t + dropout(glu(W [n_{t−w+1} … n_t] + b))        n = norm(x); causal, w tokens wide
    glu(a, g) = a ∗ σ(g)                                     one half gates the other

A convolution over tokens (Waibel et al. 1989, LeCun et al. 1998; Collobert and Weston 2008 for
text), gated as by Dauphin et al. (2017). Tokens outside the text are zero. One layer connects
tokens that are up to w − 1 apart, n layers n times as far: distance costs depth.

The convolution is computed as one matrix product over the concatenated tokens of each window.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.masks import AttentionMask
from regard.layers.base import ResidualModule
from regard.layers.decoder import CachedInput
from regard.layers.residual import Residual


class ConvolutionCache(NamedTuple):
    """Inputs of a layer so far (B, T, D). A step needs the last few; truncation needs all."""

    inputs: Tensor

    def append(self, new: "ConvolutionCache") -> "ConvolutionCache":
        return ConvolutionCache(torch.cat([self.inputs, new.inputs], dim=1))

    def truncate(self, length: int) -> "ConvolutionCache":
        """Keep the first `length` tokens."""
        return ConvolutionCache(self.inputs[:, :length])

    def reorder(self, rows: Tensor) -> "ConvolutionCache":
        """Select rows of the batch by index."""
        return ConvolutionCache(self.inputs.index_select(0, rows))


class GatedConvolution(nn.Module):
    """Gated linear map from the tokens of a window to one token."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.proj = nn.Linear(width * dim, 2 * dim)

    def forward(self, tokens: Tensor, same_document: Tensor | None = None) -> Tensor:
        """tokens (B, T + width − 1, D) → (B, T, D).

        `same_document` (B, T, width) is True where a token of a window is used; None: all are.
        """
        length = tokens.size(1) - self.width + 1
        windows = torch.cat([tokens[:, at : at + length] for at in range(self.width)], dim=-1)
        if same_document is not None:
            by_token = windows.view(*windows.shape[:-1], self.width, -1)
            windows = (by_token * same_document.unsqueeze(-1)).flatten(-2)
        return F.glu(self.proj(windows), dim=-1)


class CausalConvolution(ResidualModule):
    """Convolution over each token and those before it: the block of a convolutional decoder."""

    def __init__(self, convolution: GatedConvolution, residual: Residual) -> None:
        super().__init__()
        self.convolution = convolution
        self.residual = residual

    def forward(
        self, x: Tensor, past: CachedInput[ConvolutionCache], _: None
    ) -> tuple[Tensor, ConvolutionCache]:
        """x (B, T, D) → (B, T, D), and the cache with the new tokens appended."""
        new = ConvolutionCache(self.residual.sublayer_input(x))
        cache = new if past.cache is None else past.cache.append(new)
        before = self.convolution.width - 1
        near = cache.inputs[:, -(x.size(1) + before) :]
        near = F.pad(near, (0, 0, x.size(1) + before - near.size(1), 0))
        output = self.convolution(near, self._same_document(past.mask))
        return self.residual.add(x, output), cache

    def _same_document(self, mask: AttentionMask) -> Tensor | None:
        """Return (B, T, width): True where a token of the window is in the same document."""
        if mask.documents is None:
            return None
        before = F.pad(mask.documents, (self.convolution.width - 1, 0), value=-1)
        return before.unfold(1, self.convolution.width, 1) == mask.documents.unsqueeze(-1)


class CenteredConvolution(ResidualModule):
    """Convolution over each token and its neighbors on both sides: the block of an encoder."""

    def __init__(self, convolution: GatedConvolution, residual: Residual) -> None:
        super().__init__()
        self.convolution = convolution
        self.residual = residual

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """x (B, T, D) → (B, T, D); padding is zero, like tokens outside the text."""
        tokens = self.residual.sublayer_input(x)
        if mask.token_mask is not None:
            tokens = tokens * mask.token_mask.unsqueeze(-1)
        side = self.convolution.width // 2
        return self.residual.add(x, self.convolution(F.pad(tokens, (0, 0, side, side))))
