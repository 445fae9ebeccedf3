"""Chance that is computed where it is needed: a number for each place, the same whenever asked.

What is drawn depends on a key (a seed, an epoch) and a place, and on nothing that was drawn before:
there is no random state to save, and any part can be drawn by itself.
"""

import numpy as np
import numpy.typing as npt

from regard.data.shuffle import Ints, mix

Floats = npt.NDArray[np.float64]

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: neighbours lie far apart


def uniform(key: tuple[int, ...], *places: Ints) -> Floats:
    """Numbers in [0, 1), one for each place; a place is told by one number or more."""
    words = np.random.SeedSequence(key).generate_state(1, np.uint64)
    with np.errstate(over="ignore"):  # to wrap around is meant
        for each in places:
            words = mix(words ^ mix(each.astype(np.uint64) * _ODD + _ODD))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
