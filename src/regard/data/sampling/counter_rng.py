"""Random numbers and permutations computed from a counter, without state.

A stored random order of N examples would be a list of N numbers. A Feistel network is a bijection
whatever its round function (Luby and Rackoff 1988); it permutes [0, 4ᵏ) ⊇ [0, N), and a number
that lands outside N is permuted again until it is inside (cycle walking, Black and Rogaway 2002).
So memory does not grow with N, and any slice of the order is computed on its own.
"""

import numpy as np
import numpy.typing as npt

ROUNDS = 6

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: spreads consecutive numbers


class Permutation:
    """A permutation of [0, size), determined by its key."""

    def __init__(self, size: int, *key: int) -> None:
        half = max(1, ((size - 1).bit_length() + 1) // 2)
        self.size = size
        self._half, self._mask = np.uint64(half), np.uint64((1 << half) - 1)
        self._keys = np.random.SeedSequence(key).generate_state(ROUNDS, np.uint64)

    def __call__(self, indices: Ints) -> Ints:
        """Return the elements at these indices of the permutation."""
        permuted = self._permute(indices.astype(np.uint64))
        while (outside := permuted >= self.size).any():
            permuted[outside] = self._permute(permuted[outside])
        return permuted.astype(np.int64)

    def all(self) -> Ints:
        """Return the whole permutation."""
        return self(np.arange(self.size))

    def _permute(self, numbers: Words) -> Words:
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (mix(right ^ key) & self._mask)
        return (left << self._half) | right


def mix(words: Words) -> Words:
    """Hash 64-bit words; every output bit depends on every input bit (Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def uniform(key: tuple[int, ...], *counters: Ints) -> Floats:
    """Return numbers in [0, 1), one for each tuple of counters (row, position …)."""
    words = np.random.SeedSequence(key).generate_state(1, np.uint64)
    with np.errstate(over="ignore"):  # wrap around
        for counter in counters:
            words = mix(words ^ mix(counter.astype(np.uint64) * _ODD + _ODD))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
