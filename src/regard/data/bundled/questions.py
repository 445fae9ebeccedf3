"""Questions: est-ce que in French, do, does, did or will in English."""

from __future__ import annotations

from random import Random

from regard.data.bundled import english, french
from regard.data.bundled.lexicon import MOTION, TRANSITIVE, verb
from regard.data.bundled.meaning import Pair, Phrase, Tense
from regard.data.bundled.phrases import (
    OBJECTS_OF,
    any_definite,
    ask,
    clause,
    combinations,
    definite,
    object_noun,
    person,
    phrase,
    pick,
    subject_of,
    tense_for,
)
from regard.data.bundled.places import SETTINGS

_QUESTION_WORDS = (("", ""), ("", ""), ("", ""), ("pourquoi ", "why "), ("quand ", "when "))


def question(rng: Random) -> Pair:
    """Generate a yes-no or why question: Pourquoi est-ce que le roi a quitté le château ?"""
    verb = pick(rng, TRANSITIVE if rng.random() < 0.8 else MOTION)
    subject = subject_of(rng, verb)
    word = pick(rng, _QUESTION_WORDS)
    tense = tense_for(rng, verb, subject)
    if word[1] == "when " and tense == "present":
        tense = "future"
    target = definite(rng, object_noun(rng, verb, subject), plural=False)
    group = french.verb_group(verb, tense, subject)
    helper = english.auxiliary(tense, subject)
    return ask(
        "question",
        f"{word[0]}est-ce que {subject.french} {group} {target.french}",
        f"{word[1]}{helper} {subject.english} {verb.english} {target.english}",
        combinations(subject, verb, target),
    )


def question_where(rng: Random) -> Pair:
    """Generate a where question: Où étaient les enfants ?"""
    noun = pick(rng, pick(rng, SETTINGS)[0])
    subject = any_definite(rng, noun)
    tense: Tense = pick(rng, ("present", "past"))
    return ask(
        "question-where",
        f"où {french.to_be(tense, subject.plural)} {subject.french}",
        f"where {english.to_be(tense, subject.plural)} {subject.english}",
        subject.combinations,
    )


_SOMEONE = Phrase("qui", "who", human=True)


def question_who(rng: Random) -> Pair:
    """Generate a who question: Qui a ouvert la fenêtre ?"""
    verb = pick(rng, TRANSITIVE)
    target = any_definite(rng, pick(rng, OBJECTS_OF[verb]))
    statement = clause(_SOMEONE, verb, target, tense_for(rng, verb, _SOMEONE))
    return ask("question-who", *statement)


_BOUGHT_OR_EATEN = tuple(
    map(verb, ("buy", "eat", "read", "open", "lose", "find", "carry", "hide", "draw"))
)


def question_what(rng: Random) -> Pair:
    """Generate a what or how-many question: Combien de pommes est-ce que Paul a mangées ?"""
    verb, subject = pick(rng, _BOUGHT_OR_EATEN), person(rng)
    tense = tense_for(rng, verb, subject)
    helper = english.auxiliary(tense, subject)
    if rng.random() < 0.35:
        return ask(
            "question-what",
            f"qu'est-ce que {subject.french} {french.verb_group(verb, tense, subject)}",
            f"what {helper} {subject.english} {verb.english}",
            combinations(subject, verb),
        )
    noun = object_noun(rng, verb, subject)
    while noun.mass:
        noun = object_noun(rng, verb, subject)
    things = phrase(noun, "the", plural=True)
    group = french.verb_group(verb, tense, subject, agreeing=things)
    return ask(
        "question-how-many",
        f"combien de {noun.french_plural} est-ce que {subject.french} {group}",
        f"how many {noun.english_plural} {helper} {subject.english} {verb.english}",
        combinations(subject, verb, things),
    )
