"""Slopes of ALiBi, in plain Python."""

import math


def slopes(heads: int) -> list[float]:
    """Return the slope m_h of each head."""
    power = 2 ** math.floor(math.log2(heads))
    regular = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    finer = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return regular + finer[0::2][: heads - power]
