"""English: articles, do-support, contracted negation."""

from __future__ import annotations

from functools import cache

from regard.data.bundled.meaning import Negation, Phrase, Tense
from regard.data.bundled.words import Adjective, Noun, Verb

_TO_BE: dict[Tense, tuple[str, str]] = {
    "present": ("is", "are"),
    "past": ("was", "were"),
    "future": ("will be", "will be"),
}

_CONTRACTED = {"do": "don't", "does": "doesn't", "did": "didn't", "will": "won't"}


@cache
def noun_phrase(
    determiner: str,
    noun: Noun,
    plural: bool = False,
    before: Adjective | None = None,
    after: Adjective | None = None,
) -> str:
    """Build a noun phrase: an old man, these small white mice.

    `before` and `after` are adjectives by their position in French.
    """
    words = [adjective.english for adjective in (before, after) if adjective]
    words.append(noun.english_plural if plural else noun.english)
    if determiner == "a":
        determiner = "an" if words[0][0] in "aeiou" else "a"
    elif determiner == "this" and plural:
        determiner = "these"
    return " ".join(filter(None, (determiner, *words)))


def subject_pronoun(phrase: Phrase) -> str:
    if phrase.plural:
        return "they"
    if not phrase.human:
        return "it"
    return "she" if phrase.feminine else "he"


def object_pronoun(phrase: Phrase) -> str:
    if phrase.plural:
        return "them"
    if not phrase.human:
        return "it"
    return "her" if phrase.feminine else "him"


def auxiliary(tense: Tense, subject: Phrase) -> str:
    """Return the auxiliary of questions and negations: do, does, did or will."""
    if tense == "present":
        return "do" if subject.plural or subject.first_person else "does"
    return "did" if tense == "past" else "will"


def verb_group(
    verb: Verb, tense: Tense, subject: Phrase, negation: Negation | None = None, adverb: str = ""
) -> str:
    """Build a verb group: didn't cross, will never cross, often crosses."""
    if negation == "not":
        return f"{_CONTRACTED[auxiliary(tense, subject)]} {verb.english}"
    adverb = negation or adverb
    if tense == "future":
        words = ("will", adverb, verb.english)
    elif tense == "past":
        words = ("", adverb, verb.past)
    else:
        base = subject.plural or subject.first_person
        words = ("", adverb, verb.english if base else verb.third)
    return " ".join(filter(None, words))


def to_be(tense: Tense, plural: bool, negated: bool = False) -> str:
    return _TO_BE[tense][plural] + ("n't" if negated else "")


def sentence(text: str, end: str = ".") -> str:
    return text[0].upper() + text[1:] + end
