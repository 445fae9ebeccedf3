"""Comparison of a text with the training text of a model, by how the tokenizer splits it.

Output and attention mean little on a text unlike those that the model was trained on. Two measures
need only the tokenizer and one number of the training text:

    unknown words      words spelled in bytes, or with an unknown character
    tokens per word    FACTOR times as many as in the training text, and MIN_EXCESS in all

A tokenizer splits the text it was trained on into few tokens, and text of another language, or of
another kind, into many.
"""

from typing import Any

import numpy as np

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.predictors.translator import Translator

FACTOR = 2.0
MIN_EXCESS = 3  # tokens: one rare word does not make a text unlike others
MAX_NAMED = 5  # words in the sentence


def unlike_training(loaded: Any, text: str) -> str | None:
    """Return a sentence that says how a text differs from the training text; None if it does not.

    Args:
        loaded: a predictor as returned by `regard.load`.
        text: the text, as typed.
    """
    reasons = [_unknown(loaded.tokenizer, text), _many_tokens(loaded, text)]
    named = "; ".join(reason for reason in reasons if reason)
    if not named:
        return None
    seen = "text like its training text"
    if isinstance(loaded, Translator):
        languages = sorted({language for direction in loaded.directions for language in direction})
        seen = f"{' and '.join(languages)} {seen}"
    return f"Unlike the training text: {named}. This model has seen only {seen}."


def _unknown(tokenizer: Tokenizer, text: str) -> str:
    words = [word for word in dict.fromkeys(text.split()) if tokenizer.unknown_characters(word)]
    if not words:
        return ""
    listed = ", ".join(f"“{word}”" for word in words[:MAX_NAMED])
    more = f" and {len(words) - MAX_NAMED:,} more" if len(words) > MAX_NAMED else ""
    return f"the vocabulary has no tokens for {listed}{more}"


def _many_tokens(loaded: Any, text: str) -> str:
    usual = loaded.tokens_per_word
    ids = np.array(loaded.tokenizer.encode(text), np.int64)
    if usual is None or not ids.size:
        return ""
    words = int(WordBoundaries(loaded.tokenizer)(ids).sum())
    rate = ids.size / words
    if rate < FACTOR * usual or ids.size - usual * words < MIN_EXCESS:
        return ""
    return f"{rate:.1f} tokens a word, where the training text has {usual:.1f}"
