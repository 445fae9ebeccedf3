"""Noun phrases and clauses, built in both languages at once, random or with given words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import NamedTuple, TypeVar

from regard.data.bundled import english, french
from regard.data.bundled.lexicon import (
    ANIMALS,
    COLORS,
    MEN,
    NOUNS,
    PEOPLE,
    VERBS,
    WOMEN,
    describing,
    noun,
    of_kind,
)
from regard.data.bundled.meaning import Negation, Pair, Phrase, Tense
from regard.data.bundled.words import Adjective, Noun, Verb

T = TypeVar("T")

TENSES: tuple[Tense, ...] = ("present", "past", "past", "future")

I = Phrase("je", "I", human=True, first_person=True)  # noqa: E741 - the pronoun
WE = Phrase("nous", "we", plural=True, human=True, first_person=True)
NAMES = tuple(Phrase(name, name, feminine=True, human=True) for name in WOMEN) + tuple(
    Phrase(name, name, human=True) for name in MEN
)

ADJECTIVES_OF = {word: describing(word) for word in NOUNS}
_COLORS_OF = {word: describing(word, COLORS) for word in NOUNS}
_PRECEDING_OF = {
    word: tuple(adjective for adjective in adjectives if adjective.precedes)
    for word, adjectives in ADJECTIVES_OF.items()
}
PREDICATES_OF = {
    word: tuple(adjective for adjective in adjectives if adjective.predicative)
    for word, adjectives in ADJECTIVES_OF.items()
}
OBJECTS_OF = {verb: of_kind(*verb.objects) for verb in VERBS}

NIBBLES = (*of_kind("fruit"), noun("bread"), noun("cake"), noun("soup"), noun("cheese"))
ANIMAL_ROOMS = tuple(room for room in of_kind("room") if "public" not in room.kinds)

# Verbs with fewer objects for animals than for people: no coffee, museums or umbrellas.
_OBJECTS_OF_ANIMALS = {
    "eat": NIBBLES,
    "drink": (noun("water"), noun("milk")),
    "look for": of_kind("person", "animal"),
    "leave": ANIMAL_ROOMS,
    "enter": ANIMAL_ROOMS,
    "stay in": ANIMAL_ROOMS,
}

# my dog, but not my wolf
_OWNED = frozenset({"owned", "item", "container", "furniture", "vehicle", "home", "trinket"})


def _can_be_owned(noun: Noun, plural: bool) -> bool:
    # my kitchen, but hardly my kitchens
    return bool(noun.kinds & _OWNED) and not (plural and "home" in noun.kinds)


def _determiners(noun: Noun, plural: bool) -> tuple[str, ...]:
    if "kin" in noun.kinds:
        return ("my", "our")
    if _can_be_owned(noun, plural):
        return ("the", "the", "this", "my", "our")
    return ("the", "the", "this")


# Both indexed by number: singular, then plural.
_OWNABLE = tuple(
    frozenset(word for word in NOUNS if _can_be_owned(word, plural)) for plural in (False, True)
)
DETERMINERS_OF = tuple(
    {word: _determiners(word, plural) for word in NOUNS} for plural in (False, True)
)


def pick(rng: Random, choices: Sequence[T]) -> T:
    """Return a random item, in a third of the time of `Random.choice`."""
    return choices[int(rng.random() * len(choices))]


@cache
def phrase(
    noun: Noun,
    determiner: str = "the",
    plural: bool = False,
    before: Adjective | None = None,
    after: Adjective | None = None,
) -> Phrase:
    """Build a noun phrase: ``phrase(noun("street"))`` is *la rue*, *the street*."""
    return Phrase(
        french.noun_phrase(determiner, noun, plural, before, after),
        english.noun_phrase(determiner, noun, plural, before, after),
        noun.feminine,
        plural,
        "person" in noun.kinds,
        False,
        noun,
        tuple(f"{noun.english}+{adjective.english}" for adjective in (before, after) if adjective),
    )


def is_plural(rng: Random, noun: Noun) -> bool:
    return not noun.mass and rng.random() < 0.35


def definite(rng: Random, noun: Noun, plural: bool | None = None, owner: bool = True) -> Phrase:
    """Draw a noun phrase with the, this, my, our or, if `owner`, a possessor; no adjective."""
    if plural is None:
        plural = is_plural(rng, noun)
    if owner and noun in _OWNABLE[plural] and rng.random() < 0.1:
        return possessed(rng, noun, plural)
    return phrase(noun, pick(rng, DETERMINERS_OF[plural][noun]), plural)


def possessed(rng: Random, noun: Noun, plural: bool) -> Phrase:
    """Draw a possessive: the farmer's horses, les chevaux du fermier."""
    owner = person(rng, plural=False)
    thing = phrase(noun, "the", plural)
    return thing._replace(
        french=f"{thing.french} de {owner.french}",
        english=f"{owner.english}'s {thing.english.removeprefix('the ')}",
    )


def described(rng: Random, noun: Noun, determiner: str, plural: bool) -> Phrase:
    """Draw a phrase with one adjective, or two around the French noun: le petit chat noir."""
    adjectives = ADJECTIVES_OF[noun]
    if not adjectives:
        return phrase(noun, determiner, plural)
    colors, preceding = _COLORS_OF[noun], _PRECEDING_OF[noun]
    if colors and rng.random() < 0.35:
        size_or_age = pick(rng, preceding) if preceding and rng.random() < 0.5 else None
        return phrase(noun, determiner, plural, size_or_age, pick(rng, colors))
    adjective = pick(rng, adjectives)
    if adjective.precedes:
        return phrase(noun, determiner, plural, before=adjective)
    return phrase(noun, determiner, plural, after=adjective)


def described_definite(rng: Random, noun: Noun) -> Phrase:
    """Draw a definite phrase with adjectives: this old bridge, our white hens."""
    plural = is_plural(rng, noun)
    return described(rng, noun, pick(rng, DETERMINERS_OF[plural][noun]), plural)


def indefinite(rng: Random, noun: Noun) -> Phrase:
    """Draw an indefinite phrase, often with an adjective: a cat, some cats, some water."""
    plural = is_plural(rng, noun)
    determiner = "some" if plural or noun.mass else "a"
    if rng.random() < 0.5:
        return described(rng, noun, determiner, plural)
    return phrase(noun, determiner, plural)


def any_phrase(rng: Random, noun: Noun) -> Phrase:
    """Draw a phrase with any possible determiner, with or without an adjective."""
    if "kin" in noun.kinds:
        return definite(rng, noun)
    chance = rng.random()
    if chance < 0.35:
        return indefinite(rng, noun)
    if chance < 0.7:
        return definite(rng, noun)
    return described_definite(rng, noun)


def name(rng: Random) -> Phrase:
    return pick(rng, NAMES)


def two_names(rng: Random) -> Phrase:
    """Draw two names: Paul and Marie; masculine together if one of them is."""
    first, second = rng.sample(NAMES, 2)
    return Phrase(
        f"{first.french} et {second.french}",
        f"{first.english} and {second.english}",
        feminine=first.feminine and second.feminine,
        plural=True,
        human=True,
    )


def person(rng: Random, plural: bool | None = None) -> Phrase:
    chance = rng.random()
    if chance < 0.3 and not plural:
        return name(rng)
    if chance < 0.4 and plural is not False:
        return two_names(rng)
    noun = pick(rng, PEOPLE)
    if plural is None:
        plural = rng.random() < 0.35
    return phrase(noun, pick(rng, DETERMINERS_OF[plural][noun]), plural)


def subject_of(rng: Random, verb: Verb) -> Phrase:
    if "animal" in verb.subjects and rng.random() < 0.5:
        animal = pick(rng, ANIMALS)
        if rng.random() < 0.4:
            return described_definite(rng, animal)
        return definite(rng, animal)
    return person(rng)


def object_noun(rng: Random, verb: Verb, subject: Phrase) -> Noun:
    """Draw a noun that the verb accepts as object, other than its subject."""
    nouns = OBJECTS_OF[verb]
    if not subject.human:
        nouns = _OBJECTS_OF_ANIMALS.get(verb.english, nouns)
    noun = pick(rng, nouns)
    while noun is subject.noun:
        noun = pick(rng, nouns)
    return noun


def tense_for(rng: Random, verb: Verb, subject: Phrase) -> Tense:
    """Draw a tense with a distinct form: "the girls read" may be present or past."""
    tense = pick(rng, TENSES)
    hidden = tense == "past" and verb.past == verb.english and subject.plural
    return "future" if hidden else tense


def combinations(subject: Phrase, verb: Verb, target: Phrase | None = None) -> tuple[str, ...]:
    """Return the word combinations of a clause: subject and verb, verb and object."""
    used = subject.combinations
    if subject.noun:
        used += (f"{subject.noun.english}+{verb.english}",)
    if target:
        used += target.combinations
        if target.noun:
            used += (f"{verb.english}+{target.noun.english}",)
    return used


def any_definite(rng: Random, noun: Noun) -> Phrase:
    if "kin" in noun.kinds or rng.random() < 0.6:
        return definite(rng, noun)
    return described(rng, noun, "the", is_plural(rng, noun))


def counted(rng: Random, noun: Noun) -> Phrase:
    number = pick(rng, tuple(french.NUMBERS))
    if rng.random() < 0.5:
        return described(rng, noun, number, plural=True)
    return phrase(noun, number, plural=True)


def quality(rng: Random, phrase: Phrase, noun: Noun) -> tuple[Adjective, tuple[str, ...]]:
    adjective = pick(rng, PREDICATES_OF[noun])
    return adjective, (*phrase.combinations, f"{noun.english}+{adjective.english}")


class Clause(NamedTuple):
    french: str
    english: str
    combinations: tuple[str, ...]


NOTHING = Phrase("", "")


def clause(
    subject: Phrase,
    verb: Verb,
    target: Phrase,
    tense: Tense,
    negation: Negation | None = None,
    adverb: tuple[str, str] = ("", ""),
) -> Clause:
    """Build a clause: *le chat ne boit plus le lait*; the object may be NOTHING."""
    in_french = french.verb_group(verb, tense, subject, negation, adverb=adverb[0])
    in_english = english.verb_group(verb, tense, subject, negation, adverb[1])
    return Clause(
        f"{subject.french} {in_french} {target.french}".rstrip(),
        f"{subject.english} {in_english} {target.english}".rstrip(),
        combinations(subject, verb, target),
    )


_TIMES: dict[Tense, tuple[tuple[str, str], ...]] = {
    "past": (("hier", "yesterday"), ("ce matin", "this morning")),
    "present": (("chaque jour", "every day"), ("chaque matin", "every morning")),
    "future": (("demain", "tomorrow"), ("ce soir", "this evening")),
}


def timed(rng: Random, statement: Clause, tense: Tense) -> Clause:
    """Add a time expression at the beginning, at the end, or not at all."""
    chance = rng.random()
    if chance > 0.4:
        return statement
    when = pick(rng, _TIMES[tense])
    if chance < 0.1:
        return statement._replace(
            french=f"{when[0]}, {statement.french}", english=f"{when[1]}, {statement.english}"
        )
    return statement._replace(
        french=f"{statement.french} {when[0]}", english=f"{statement.english} {when[1]}"
    )


def finish(
    construction: str,
    in_french: str,
    in_english: str,
    used: tuple[str, ...],
    pronoun: str | None = None,
    choice: str | None = None,
) -> Pair:
    return Pair(
        french.sentence(in_french),
        english.sentence(in_english),
        construction,
        pronoun,
        frozenset(used),
        choice,
    )


def ask(construction: str, in_french: str, in_english: str, used: tuple[str, ...]) -> Pair:
    return Pair(
        french.sentence(in_french, " ?"),
        english.sentence(in_english, "?"),
        construction,
        None,
        frozenset(used),
    )
