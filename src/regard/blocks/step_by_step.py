"""A part that calls those inside it once a word, because each word needs what the last one left."""

from torch import nn


class StepByStep(nn.Module):
    """Whoever watches joins what such a part's parts did in one call, word after word."""
