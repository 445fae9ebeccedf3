"""Marker classes of layers, for code that records activations."""

from torch import nn


class ResidualModule(nn.Module):
    """A module whose output is the residual stream (B, T, D): the embedding and every block."""


class PerTokenModule(nn.Module):
    """A module that calls its submodules once a token, because each step needs the last state."""
