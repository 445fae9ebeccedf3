"""French: determiners, agreement, conjugation, and the elisions that join words together.

Phrases are built word by word, unelided ("ne a pas", "de le marché"); `sentence` makes the
elisions and contractions once, over the whole sentence, where all adjacent words are known.
"""

from __future__ import annotations

import re
from functools import cache

from regard.data.bundled.meaning import Negation, Phrase, Tense
from regard.data.bundled.spelling import VOWEL_SOUND, sounds_like_vowel
from regard.data.bundled.words import Adjective, Noun, Verb

NUMBERS = {
    "two": "deux",
    "three": "trois",
    "four": "quatre",
    "five": "cinq",
    "six": "six",
    "seven": "sept",
    "eight": "huit",
    "nine": "neuf",
    "ten": "dix",
    "twelve": "douze",
    "twenty": "vingt",
}

# Masculine, feminine, plural.
_DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", "des"),
    "some": ("de le", "de la", "des"),
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
    "our": ("notre", "notre", "nos"),
} | {english: (french, french, french) for english, french in NUMBERS.items()}

# cet arbre, and the masculine form of a feminine possessive: mon école.
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon"}

_NEGATIONS: dict[Negation, str] = {"not": "pas", "never": "jamais", "no longer": "plus"}
_TO_HAVE = ("a", "ont")
_TO_BE: dict[Tense, tuple[str, str]] = {
    "present": ("est", "sont"),
    "past": ("était", "étaient"),
    "future": ("sera", "seront"),
}

_ELISION = re.compile(rf"\b([Ll]|[Dd]|[Nn]|[Qq]u|[Jj]|[Mm])[ea] (?={VOWEL_SOUND})")
_CONTRACTION = re.compile(r"\b(de le|de les|à le|à les)(?= )")
_CONTRACTED = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def agree(adjective: Adjective, feminine: bool, plural: bool) -> str:
    return adjective.forms[feminine + 2 * plural]


@cache
def noun_phrase(
    determiner: str,
    noun: Noun,
    plural: bool = False,
    before: Adjective | None = None,
    after: Adjective | None = None,
) -> str:
    """Build a noun phrase: un vieil homme, de petites souris blanches, mon école."""
    head = noun.french_plural if plural else noun.french
    words = [head]
    if before:
        form = agree(before, noun.feminine, plural)
        if not (noun.feminine or plural) and sounds_like_vowel(head):
            form = before.before_vowel
        words.insert(0, form)
    if after:
        words.append(agree(after, noun.feminine, plural))
    article = _DETERMINERS[determiner][2 if plural else noun.feminine]
    if article == "des" and before:
        article = "de"
    if sounds_like_vowel(words[0]):
        article = _BEFORE_VOWEL.get(article, article)
    return " ".join((article, *words))


def subject_pronoun(phrase: Phrase) -> str:
    return ("elle" if phrase.feminine else "il") + ("s" if phrase.plural else "")


def object_pronoun(phrase: Phrase) -> str:
    return "les" if phrase.plural else "la" if phrase.feminine else "le"


def indirect_pronoun(phrase: Phrase) -> str:
    return "leur" if phrase.plural else "lui"


def participle(verb: Verb, phrase: Phrase) -> str:
    return verb.participle + ("e" if phrase.feminine else "") + ("s" if phrase.plural else "")


def _finite(verb: Verb, tense: Tense, subject: Phrase, agreeing: Phrase | None) -> tuple[str, str]:
    """Return the conjugated word, and the participle that follows it in the passé composé."""
    plural = subject.plural
    if tense == "present":
        return verb.present[plural], ""
    if tense == "future":
        return verb.future[plural], ""
    if verb.imperfect:
        return verb.imperfect[plural], ""
    if verb.etre:
        return _TO_BE["present"][plural], participle(verb, subject)
    return to_have(subject), participle(verb, agreeing) if agreeing else verb.participle


def verb_group(
    verb: Verb,
    tense: Tense,
    subject: Phrase,
    negation: Negation | None = None,
    clitic: str = "",
    adverb: str = "",
    agreeing: Phrase | None = None,
) -> str:
    """Build a verb group: ne le a jamais vu; ``agreeing`` is a direct object before the verb."""
    finite, rest = _finite(verb, tense, subject, agreeing)
    negative = _NEGATIONS[negation] if negation else ""
    words = ("ne" if negation else "", clitic, finite, negative, adverb, rest, verb.preposition)
    return " ".join(filter(None, words))


def to_have(subject: Phrase) -> str:
    if subject.first_person:
        return "avons" if subject.plural else "ai"
    return _TO_HAVE[subject.plural]


def to_be(tense: Tense, plural: bool, negated: bool = False) -> str:
    form = _TO_BE[tense][plural]
    return f"ne {form} pas" if negated else form


def sentence(text: str, end: str = ".") -> str:
    """Elide, contract, capitalize and close: de le marché → du marché, que il → qu'il."""
    text = _ELISION.sub(r"\1'", text)
    if "de le" in text or "à le" in text:
        text = _CONTRACTION.sub(lambda match: _CONTRACTED[match[0]], text)
    return text[0].upper() + text[1:] + end
