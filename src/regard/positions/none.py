"""No positions: the model gets a set of tokens, not a sequence.

An encoder with this kind cannot distinguish "dog bites man" from "man bites dog" (tested). A
decoder can to some degree: under the causal mask each token attends to a different number of
tokens.
"""

from regard.positions.base import PositionSpec


class Spec(PositionSpec):
    """position: none"""
