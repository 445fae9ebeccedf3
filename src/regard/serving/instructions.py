"""Instructions to a translator, and the language that they name: "Translate to French", "fr".

Languages are named in English, and some of them in their own and other languages. A code counts
where no language has its name, at the end or after a word such as "to": many codes are words.
"""

import re
from collections.abc import Collection, Sequence

from regard.data.languages import is_language_name, language_named

LONGEST_CODE = 3  # letters

# Words before the language to translate to, before the one to translate from, and between.
_TO = {"to", "into", "in", "as", "en", "vers", "auf", "ins", "nach", "al", "a"}
_FROM = {"from", "of", "du", "de", "des", "depuis", "von", "vom", "aus", "del", "dal"}
_ARTICLES = {"the", "l", "le", "la", "les"}

_TRANSLATE = re.compile(
    r"\s*(please |bitte |por favor )?(translate|tradui|tradu[cz]|übersetz)", re.IGNORECASE
)

# Names in French, besides those that `data.languages` has.
_FRENCH_NAMES = {
    "arabe": "ar", "chinois": "zh", "espagnol": "es", "italien": "it", "japonais": "ja",
    "néerlandais": "nl", "polonais": "pl", "portugais": "pt", "roumain": "ro", "russe": "ru",
    "suédois": "sv", "turc": "tr", "ukrainien": "uk",
}  # fmt: skip


def named_target(instruction: str, languages: Collection[str]) -> str | None:
    """Return the code of the language that an instruction says to translate to, or None.

    Args:
        instruction: A text of a few sentences.
        languages: Codes that count as names of languages.
    """
    words = re.findall(r"[^\W_]+", instruction.casefold())
    last = len(words) - 1
    mentions = [
        (_preposition(words, index), code)
        for index, word in enumerate(words)
        if (code := _language_of_name(word)) is not None
    ] or [
        (_preposition(words, index), word)
        for index, word in enumerate(words)
        if word in languages and (index == last or _preposition(words, index) in _TO)
    ]
    mentions = [mention for mention in mentions if mention[0] not in _FROM]
    targets = [code for preposition, code in mentions if preposition in _TO]
    if targets:
        return targets[0]
    return mentions[-1][1] if mentions else None  # of "English – French", the last


def split_instruction(text: str, languages: Collection[str]) -> tuple[str, str]:
    """Return the instruction that a text begins with, and the rest; "" if there is none.

    An instruction is a first paragraph such as "Translate from French to English, keep names:".
    Several programs that translate subtitles send the text below it, in the same message.

    Args:
        text: A message.
        languages: Codes that count as names of languages.
    """
    first, _, rest = text.partition("\n\n")
    is_instruction = _TRANSLATE.match(first) and first.rstrip().endswith(":")
    return (first, rest) if is_instruction and named_target(first, languages) else ("", text)


def _language_of_name(word: str) -> str | None:
    """Return the code of the language that a word is the name of, or None."""
    if len(word) > LONGEST_CODE and is_language_name(word):
        return language_named(word)
    return _FRENCH_NAMES.get(word)


def _preposition(words: Sequence[str], index: int) -> str:
    """Return the word before another and its article."""
    before = [word for word in words[:index] if word not in _ARTICLES]
    return before[-1] if before else ""
