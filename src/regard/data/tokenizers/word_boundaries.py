"""Where words begin among pieces, told by the pieces themselves.

    " The" " anim" "al" "."     a space in the piece, as ours and GPT-2's (Ġ) and T5's (▁) have it
    "the" "anim" "##al" "."     ## where a word goes on, as in BERT

A sign that joins two halves (didn't, well-known) is part of the word; any other stands alone, so
that a mask over the last word of a sentence does not cover its full stop.
"""

import re

import numpy as np
import numpy.typing as npt

from regard.data.tokenizers.tokenizer import Tokenizer

Flags = npt.NDArray[np.bool_]

_SPACED = re.compile(r"[\s▁ĠĊ]")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class WordBoundaries:
    """What each piece of a vocabulary says of the borders of words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [_text(piece) for piece in tokenizer.vocabulary()]
        special = tokenizer.special
        self._marked = any(text[:2] == "##" and text[2:3].isalnum() for text in texts)
        after_space = re.compile(r"(?!##)" if self._marked else _SPACED)
        self.spaced: Flags = np.array(
            [each in special or bool(after_space.match(text)) for each, text in enumerate(texts)]
        )
        self._signs: Flags = np.array([not any(map(str.isalnum, text)) for text in texts])
        self._signs &= [_BYTE.fullmatch(piece) is None for piece in tokenizer.vocabulary()]
        # Where each character is a piece, a space is one as well, and no part of the word after it.
        self.hold_spaces = self._marked or any(
            _SPACED.match(text) and len(text) > 1 and each not in special
            for each, text in enumerate(texts)
        )

    def __call__(self, ids: npt.NDArray[np.integer]) -> Flags:
        """Which of ids (…, T) begin a word; a row begins one in any case."""
        begins: Flags = self.spaced[ids]
        if not self._marked:
            goes_on = np.zeros_like(begins)
            goes_on[..., :-1] = ~(self.spaced | self._signs)[ids[..., 1:]]
            begins = begins | (self._signs[ids] & ~goes_on)
        begins[..., 0] = True
        return begins


def _text(piece: str) -> str:
    """A byte as the sign that it is, where it is one by itself."""
    found = _BYTE.fullmatch(piece)
    return chr(int(found[1], 16)) if found and int(found[1], 16) < 128 else piece
