"""A part that leaves the residual stream behind it: the embedding, and every block of a stack."""

from torch import nn


class OnStream(nn.Module):
    """Whoever watches sees, after such a part, one vector a word (B, T, D)."""
