"""Masking (Devlin et al. 2019, section 3.1): some words are chosen and are to be guessed.

Of their pieces 80 % become <mask>, 10 % another piece at random, and 10 % stay: the model cannot
know which of the words it sees are true, so it must have an opinion of each.

    my dog is very hairy  →  my dog is <mask> apple        very, hairy are to be guessed
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.sampling.counter_rng import Ints, uniform
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries

CHOICE, ROUNDING, FATE, REPLACEMENT = range(4)  # what is drawn: no two alike by chance

Flags = npt.NDArray[np.bool_]


class Masked(NamedTuple):
    ids: Ints  # (B, T), with masks in them
    chosen: Flags  # (B, T), what is to be guessed


class Masking:
    """How much is chosen, and what becomes of it."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        share: float = 0.15,
        masked: float = 0.8,
        random: float = 0.1,
        whole_words: bool = False,
    ) -> None:
        """`share` of the pieces of a row is chosen; of these, `masked` and `random` are changed."""
        self._share, self._masked, self._random = share, masked, random
        self._mask = tokenizer.special_id("mask")
        self._borders = WordBoundaries(tokenizer) if whole_words else None
        self._special = np.zeros(len(tokenizer), np.bool_)
        self._special[sorted(tokenizer.special)] = True
        there = np.array([piece != "" for piece in tokenizer.vocabulary()])
        self._ordinary = np.flatnonzero(there & ~self._special)

    def __call__(self, ids: Ints, token_mask: Flags, key: tuple[int, ...], numbers: Ints) -> Masked:
        """Ids (B, T), real where they are no padding; each row draws by its own number."""
        chosen = self._choose(ids, token_mask & ~self._special[ids], key, numbers)
        rows, places = np.nonzero(chosen)
        fate = uniform((*key, FATE), numbers[rows], places)
        drawn = uniform((*key, REPLACEMENT), numbers[rows], places)
        other = self._ordinary[(drawn * len(self._ordinary)).astype(np.int64)]
        changed = np.where(fate < self._masked + self._random, other, ids[chosen])
        hidden = ids.copy()
        hidden[chosen] = np.where(fate < self._masked, self._mask, changed)
        return Masked(hidden, chosen)

    def _choose(self, ids: Ints, free: Flags, key: tuple[int, ...], numbers: Ints) -> Flags:
        """Words in random order until their pieces are the share asked for, one word at least.

        The last one, of which not all pieces are wanted, is taken as often as they would be: on
        average, the share is exact.
        """
        begins = free.copy()
        if self._borders is not None:
            begins[:, 1:] &= self._borders(ids)[:, 1:] | ~free[:, :-1]
        rows, places = np.nonzero(begins)
        word = np.cumsum(begins[free]) - 1  # of each free piece
        size = np.bincount(word, minlength=len(rows))
        order = np.lexsort((uniform((*key, CHOICE), numbers[rows], places), rows))
        before = np.cumsum(size[order]) - size[order]
        before -= np.repeat(before[_firsts(rows)], np.bincount(rows)[np.unique(rows)])
        part = (size * uniform((*key, ROUNDING), numbers[rows], places))[order]
        taken = np.zeros(len(rows), np.bool_)
        taken[order] = (before == 0) | (before + part < self._share * free.sum(1)[rows])
        chosen = np.zeros_like(free)
        chosen[free] = taken[word]
        return chosen


def _firsts(rows: Ints) -> Ints:
    """Where, in numbers that only rise, each is there for the first time."""
    return np.flatnonzero(np.diff(rows, prepend=-1))
