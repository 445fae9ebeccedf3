"""Regular spelling: the plural, feminine and past forms that a rule can give."""

from __future__ import annotations

import re

_ENGLISH_VOWELS = "aeiou"

# A mute h counts as a vowel (l'homme); an aspirated one does not (le héros, le hibou).
VOWEL_SOUND = "(?:[aeiouàâéèêîôûœAEIOUÉ]|h(?:omme|ôtel|orloge|istoire|eureu|umide))"
_VOWEL_SOUND = re.compile(VOWEL_SOUND)


def sounds_like_vowel(word: str) -> bool:
    """Return True if a French word requires elision before it."""
    return _VOWEL_SOUND.match(word) is not None


def french_plural(word: str) -> str:
    if word[-1] in "sx":
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def french_feminine(word: str) -> str:
    if word.endswith("e"):
        return word
    return word[:-1] + "se" if word.endswith("eux") else word + "e"


def english_plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in _ENGLISH_VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def english_third_person(phrase: str) -> str:
    """Inflect the first word, which is the verb: look for, looks for."""
    word, _, rest = phrase.partition(" ")
    return f"{english_plural(word)} {rest}".rstrip()


def english_past(phrase: str) -> str:
    word, _, rest = phrase.partition(" ")
    if word.endswith("y") and word[-2] not in _ENGLISH_VOWELS:
        past = word[:-1] + "ied"
    else:
        past = word + ("d" if word.endswith("e") else "ed")
    return f"{past} {rest}".rstrip()
