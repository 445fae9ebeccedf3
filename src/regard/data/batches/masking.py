"""Token masking for masked language models (Devlin et al. 2019, section 3.1).

Some tokens are selected and are to be predicted. 80 % of them are replaced by <mask>, 10 % by a
random token, and 10 % stay as they are: the model cannot tell which tokens are unchanged, so it
must represent every token.

    my dog is very hairy  →  my dog is <mask> apple        predict very, hairy
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.sampling.counter_rng import Ints, uniform
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries

SELECTION, ROUNDING, ACTION, REPLACEMENT = range(4)  # streams of random numbers, all independent

Flags = npt.NDArray[np.bool_]


class Masked(NamedTuple):
    """Masked ids (B, T), and a mask (B, T) that is True at tokens to predict."""

    ids: Ints
    masked_positions: Flags


class Masking:
    """Select tokens to predict and replace them."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        mask_rate: float = 0.15,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        whole_words: bool = False,
    ) -> None:
        """Set the rates.

        `mask_rate` is the fraction of the tokens of a row to predict; of these, the fraction
        `mask_token_rate` is replaced by <mask> and `random_token_rate` by a random token. With
        `whole_words`, all tokens of a word are selected together.
        """
        self._mask_rate = mask_rate
        self._mask_token_rate, self._random_token_rate = mask_token_rate, random_token_rate
        self._mask_id = tokenizer.special_id("mask")
        self._word_boundaries = WordBoundaries(tokenizer) if whole_words else None
        self._is_special = np.zeros(len(tokenizer), np.bool_)
        self._is_special[sorted(tokenizer.special_ids)] = True
        in_vocabulary = np.array([piece != "" for piece in tokenizer.vocabulary()])
        self._ordinary = np.flatnonzero(in_vocabulary & ~self._is_special)

    def __call__(self, ids: Ints, token_mask: Flags, key: tuple[int, ...], numbers: Ints) -> Masked:
        """Mask ids (B, T); random numbers depend on `key` and the number of the row only."""
        maskable = token_mask & ~self._is_special[ids]
        masked_positions = self._select(ids, maskable, key, numbers)
        rows, columns = np.nonzero(masked_positions)
        action = uniform((*key, ACTION), numbers[rows], columns)
        drawn = uniform((*key, REPLACEMENT), numbers[rows], columns)
        random_ids = self._ordinary[(drawn * len(self._ordinary)).astype(np.int64)]
        changed = np.where(
            action < self._mask_token_rate + self._random_token_rate,
            random_ids,
            ids[masked_positions],
        )
        masked_ids = ids.copy()
        masked_ids[masked_positions] = np.where(
            action < self._mask_token_rate, self._mask_id, changed
        )
        return Masked(masked_ids, masked_positions)

    def _select(self, ids: Ints, maskable: Flags, key: tuple[int, ...], numbers: Ints) -> Flags:
        """Select words in random order until their tokens reach the mask rate, at least one word.

        A word of which only some tokens are needed is selected with the probability needed / size,
        so that the rate is exact on average.
        """
        begins = maskable.copy()
        if self._word_boundaries is not None:
            begins[:, 1:] &= self._word_boundaries(ids)[:, 1:] | ~maskable[:, :-1]
        rows, columns = np.nonzero(begins)
        word = np.cumsum(begins[maskable]) - 1  # of each maskable token
        size = np.bincount(word, minlength=len(rows))
        order = np.lexsort((uniform((*key, SELECTION), numbers[rows], columns), rows))
        before = np.cumsum(size[order]) - size[order]
        before -= np.repeat(before[_first_indices(rows)], np.bincount(rows)[np.unique(rows)])
        part = (size * uniform((*key, ROUNDING), numbers[rows], columns))[order]
        selected = np.zeros(len(rows), np.bool_)
        selected[order] = (before == 0) | (before + part < self._mask_rate * maskable.sum(1)[rows])
        masked_positions = np.zeros_like(maskable)
        masked_positions[maskable] = selected[word]
        return masked_positions


def _first_indices(rows: Ints) -> Ints:
    """Return the index of the first occurrence of each value in sorted numbers."""
    return np.flatnonzero(np.diff(rows, prepend=-1))
