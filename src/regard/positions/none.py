"""No positions at all: the model sees a set of words, not a sequence.

An encoder with this kind cannot tell "dog bites man" from "man bites dog" (tested). A decoder still
can, dimly: its mask lets each word see a different number of others.
"""

from regard.positions.base import PositionSpec


class Spec(PositionSpec):
    """position: none"""
