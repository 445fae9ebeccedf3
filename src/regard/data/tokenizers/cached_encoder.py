"""Encoding word by word: the same ids, many times as fast, for text in which words come again.

A tokeniser that learned its pieces cuts text at words, and no piece reaches from one word into
another (`tokenizers/assembly.py`). So a text is the ids of its words, one after the other, and each
word need be cut into pieces only once.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain

from regard.data.tokenizers.base import LearnedSpec, TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer

KNOWN = 2**17  # words that are remembered

# Python takes these for spaces, and the tokeniser does not.
_STRANGE = re.compile(r"[\x1c-\x1f]")
_WORDS = re.compile(r"\s*\S+|\s+")

Encode = Callable[[Sequence[str]], list[list[int]]]


def encoder(spec: TokenizerSpec, tokenizer: Tokenizer) -> Encode:
    """The fastest way to encode many texts with a tokeniser of this kind."""
    if not isinstance(spec, LearnedSpec):
        return tokenizer.encode_all
    # Where spaces are kept, those before a word are part of it.
    return WordByWord(tokenizer, str.split if spec.spaces == "collapse" else _WORDS.findall)


class WordByWord:
    def __init__(self, tokenizer: Tokenizer, words: Callable[[str], list[str]]) -> None:
        self._tokenizer, self._words = tokenizer, words
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        words = [[text] if _STRANGE.search(text) else self._words(text) for text in texts]
        if len(self._known) > KNOWN:
            self._known.clear()
        new = list(set(chain.from_iterable(words)) - self._known.keys())
        self._known.update(zip(new, self._tokenizer.encode_all(new), strict=True))
        ids = self._known.__getitem__
        return [list(chain.from_iterable(map(ids, each))) for each in words]
