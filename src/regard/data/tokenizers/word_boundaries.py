"""Word boundaries among tokens, found from the pieces themselves.

    " The" " anim" "al" "."     a space in the piece, as Regard's, GPT-2's (Ġ) and T5's (▁) have it
    "the" "anim" "##al" "."     ## where a word continues, as in BERT

A sign that joins two halves (didn't, well-known) is part of the word; any other is a word of its
own, so that a mask over the last word of a sentence does not cover the full stop.
"""

import re

import numpy as np
import numpy.typing as npt

from regard.data.tokenizers.tokenizer import Tokenizer

Flags = npt.NDArray[np.bool_]

_SPACE = re.compile(r"[\s▁ĠĊ]")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class WordBoundaries:
    """Finds the first token of each word, from flags of every piece of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [_text(piece) for piece in tokenizer.vocabulary()]
        special = tokenizer.special_ids
        self._has_continuations = any(text[:2] == "##" and text[2:3].isalnum() for text in texts)
        begins = re.compile(r"(?!##)" if self._has_continuations else _SPACE)
        self.begins_word: Flags = np.array(
            [token in special or bool(begins.match(text)) for token, text in enumerate(texts)]
        )
        self._is_sign: Flags = np.array([not any(map(str.isalnum, text)) for text in texts])
        self._is_sign &= [_BYTE.fullmatch(piece) is None for piece in tokenizer.vocabulary()]
        # In a character vocabulary a space is a token of its own, not part of the word after it.
        self.pieces_hold_spaces = self._has_continuations or any(
            _SPACE.match(text) and len(text) > 1 and token not in special
            for token, text in enumerate(texts)
        )

    def __call__(self, ids: npt.NDArray[np.integer]) -> Flags:
        """Return True for the tokens of ids (…, T) that begin a word; the first of a row does."""
        begins: Flags = self.begins_word[ids]
        if not self._has_continuations:
            continues = np.zeros_like(begins)
            continues[..., :-1] = ~(self.begins_word | self._is_sign)[ids[..., 1:]]
            begins = begins | (self._is_sign[ids] & ~continues)
        begins[..., 0] = True
        return begins


def _text(piece: str) -> str:
    """Return a byte piece as its ASCII character, if it is one; any other piece unchanged."""
    match = _BYTE.fullmatch(piece)
    return chr(int(match[1], 16)) if match and int(match[1], 16) < 128 else piece
