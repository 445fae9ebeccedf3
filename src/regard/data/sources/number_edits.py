"""Other numbers in a pair, from which a model learns to copy numbers.

Everyday sentences have few numbers in digits, and the same ones again and again: a model that saw
no others translates 47 by one that it knows. Numbers that are in both texts, in digits or as a
word, are replaced by random ones, the same in both:

    They have three children. → They have 52 children.
    Ils ont trois enfants.    → Ils ont 52 enfants.
"""

import random
import re
from collections import Counter
from zlib import crc32

_VALUES = "2 3 4 5 6 7 8 9 10 11 12 15 20 30 40 50 60"
_WORDS = {
    "en": "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty "
    "fifty sixty",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze quinze vingt trente quarante "
    "cinquante soixante",
}
_VALUE_OF_WORD = {
    language: dict(zip(words.split(), _VALUES.split(), strict=True))
    for language, words in _WORDS.items()
}
UNCHANGED = {"0", "1"}  # the words beside them have no plural


def random_numbers(texts: tuple[str, ...], languages: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the numbers of a pair by random ones, which depend on the pair alone.

    A pair whose texts have different numbers stays as it is.
    """
    numbers = [
        Counter(_value(match[0], language) for match in _pattern(language).finditer(text))
        for text, language in zip(texts, languages, strict=True)
    ]
    values = sorted(numbers[0].keys() - UNCHANGED)
    if not values or any(other != numbers[0] for other in numbers[1:]):
        return texts
    generator = random.Random(crc32("\t".join(texts).encode()))
    replacements = {value: _random_number(value, generator) for value in values}

    def replaced(text: str, language: str) -> str:
        return _pattern(language).sub(
            lambda match: replacements.get(_value(match[0], language), match[0]), text
        )

    return tuple(map(replaced, texts, languages))


def _pattern(language: str) -> re.Pattern[str]:
    """Return the pattern of a number by itself: 12 and twelve, not 12th, A12 or twenty-one."""
    words = "".join(f"|{word}" for word in _VALUE_OF_WORD.get(language, ()))
    return re.compile(rf"(?<![\w-])(?:\d+{words})(?![\w-])", re.IGNORECASE)


def _value(number: str, language: str) -> str:
    return _VALUE_OF_WORD.get(language, {}).get(number.casefold(), number)


def _random_number(value: str, generator: random.Random) -> str:
    """Return a number of as many digits, or of up to four instead of one."""
    digits = len(value) if len(value) > 1 else generator.choice((1, 2, 2, 2, 3, 4))
    return str(generator.randrange(max(2, 10 ** (digits - 1)), 10**digits))
