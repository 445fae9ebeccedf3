"""Word windows: each word is made anew from its neighbours within a window, by one map for all.

    y_t = x_t + dropout(glu(W [n_{t−w+1} … n_t] + b))        n = norm(x); causal, w words wide
    glu(a, g) = a ∗ σ(g)                                     one half opens or shuts the other

A convolution over words (Waibel et al. 1989, LeCun et al. 1998; Collobert and Weston 2008 for
words), gated as by Dauphin et al. (2017). What lies outside the text is zero. A layer carries over
w − 1 words, a stack of layers over as many for each: distance costs depth.

The map is a matrix product over windows laid side by side, which is what a convolution is.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.masks import AttentionMask
from regard.layers.base import ResidualModule
from regard.layers.decoder import CachedInput
from regard.layers.residual import Residual


class Inputs(NamedTuple):
    """What a layer was given so far: (B, T, D). It needs the last few; going back needs all."""

    words: Tensor

    def append(self, new: "Inputs") -> "Inputs":
        return Inputs(torch.cat([self.words, new.words], dim=1))

    def truncate(self, length: int) -> "Inputs":
        return Inputs(self.words[:, :length])

    def reorder(self, rows: Tensor) -> "Inputs":
        return Inputs(self.words.index_select(0, rows))


class Window(nn.Module):
    """The map from a window's words to one, gated."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.map = nn.Linear(width * dim, 2 * dim)

    def forward(self, words: Tensor, visible: Tensor | None = None) -> Tensor:
        """words (B, T + width − 1, D) → (B, T, D); of each window's words those that are visible
        (B, T, width), where not all are."""
        length = words.size(1) - self.width + 1
        windows = torch.cat([words[:, at : at + length] for at in range(self.width)], dim=-1)
        if visible is not None:
            apart = windows.view(*windows.shape[:-1], self.width, -1) * visible.unsqueeze(-1)
            windows = apart.flatten(-2)
        return F.glu(self.map(windows), dim=-1)


class CausalWindow(ResidualModule):
    """Each word and those before it; stands where a decoder has its blocks."""

    def __init__(self, window: Window, residual: Residual) -> None:
        super().__init__()
        self.window = window
        self.around = residual

    def forward(self, x: Tensor, past: CachedInput[Inputs], _: None) -> tuple[Tensor, Inputs]:
        """x (B, T, D) → (B, T, D), and the inputs of past and new words together."""
        new = Inputs(self.around.enter(x))
        cache = new if past.cache is None else past.cache.append(new)
        before = self.window.width - 1
        near = cache.words[:, -(x.size(1) + before) :]
        near = F.pad(near, (0, 0, x.size(1) + before - near.size(1), 0))
        seen = self.window(near, self._visible(past.mask))
        return self.around.leave(x, seen), cache

    def _visible(self, mask: AttentionMask) -> Tensor | None:
        """Which words of its window are of a word's own document."""
        if mask.documents is None:
            return None
        before = F.pad(mask.documents, (self.window.width - 1, 0), value=-1)
        return before.unfold(1, self.window.width, 1) == mask.documents.unsqueeze(-1)


class CentredWindow(ResidualModule):
    """Each word and as many on either side; stands where an encoder has its blocks."""

    def __init__(self, window: Window, residual: Residual) -> None:
        super().__init__()
        self.window = window
        self.around = residual

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """x (B, T, D) → (B, T, D); padding is as nothing, as is what lies outside the text."""
        words = self.around.enter(x)
        if mask.token_mask is not None:
            words = words * mask.token_mask.unsqueeze(-1)
        side = self.window.width // 2
        return self.around.leave(x, self.window(F.pad(words, (0, 0, side, side))))
