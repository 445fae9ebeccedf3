"""Because-sentences, in which the adjective decides which noun *it* refers to.

    The animal didn't cross the street because it was too tired.
    L'animal n'a pas traversé la rue parce qu'il était trop fatigué.

    The animal didn't cross the street because it was too wide.
    L'animal n'a pas traversé la rue parce qu'elle était trop large.

English leaves the choice to the reader; French must make it, by gender. Only the adjective decides:
in the ambiguous sentences each adjective describes subjects only or objects only.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from regard.data.bundled import english, french
from regard.data.bundled.lexicon import ANIMALS, PEOPLE, adjective, describing, noun, of_kind, verb
from regard.data.bundled.meaning import Negation, Pair, Phrase, Tense
from regard.data.bundled.phrases import (
    ANIMAL_ROOMS,
    NIBBLES,
    combinations,
    definite,
    finish,
    person,
    phrase,
    pick,
)
from regard.data.bundled.words import Adjective, Noun, Verb

_DEGREES = {"too": "trop", "very": "très"}
_TENSES: tuple[Tense, ...] = ("past", "past", "past", "past", "present", "present", "future")


def because(
    subject: Phrase,
    verb: Verb,
    target: Phrase,
    adjective: Adjective,
    about: Phrase,
    tense: Tense = "past",
    degree: str = "too",
    negated: bool = True,
) -> Pair:
    """Build *Subject didn't verb target because it was too adjective*.

    ``about``, the referent of *it*, is ``subject`` or ``target``. The street sentence is
    ``because(animal, verb("cross"), street, adjective("wide"), about=street)``.
    """
    negation: Negation | None = "not" if negated else None
    state: Tense = "past" if tense == "past" else "present"
    pronoun = french.subject_pronoun(about)
    in_french = (
        f"{subject.french} {french.verb_group(verb, tense, subject, negation)} {target.french}"
        f" parce que {pronoun} {french.to_be(state, about.plural)}"
        f" {_DEGREES[degree]} {french.agree(adjective, about.feminine, about.plural)}"
    )
    in_english = (
        f"{subject.english} {english.verb_group(verb, tense, subject, negation)} {target.english}"
        f" because {english.subject_pronoun(about)} {english.to_be(state, about.plural)}"
        f" {degree} {adjective.english}"
    )
    used = combinations(subject, verb, target)
    described = f"{about.noun.english}+{adjective.english}" if about.noun else None
    if described:
        used += (described,)
    if subject.human:
        return finish("because-person", in_french, in_english, used)
    construction = "because-they" if about.plural else "because-it"
    if subject.plural != target.plural:
        return finish(construction, in_french, in_english, used)
    choice = described if subject.feminine != target.feminine else None
    return finish(construction, in_french, in_english, used, pronoun, choice)


@dataclass(frozen=True, slots=True)
class Family:
    """A verb with its subjects and objects, and the adjectives that distinguish them."""

    verb: Verb
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    of_subject: tuple[Adjective, ...]
    of_each_subject: dict[Noun, tuple[Adjective, ...]]
    of_each_object: dict[Noun, tuple[Adjective, ...]]
    negated: bool = True

    def draw(self, rng: Random) -> Pair:
        """Draw a random sentence pair."""
        target = definite(rng, pick(rng, self.objects), owner=False)
        subject = self._subject(rng, target)
        assert target.noun is not None
        if rng.random() < 0.5:
            about = target
            adjectives = self.of_each_object[target.noun]
        else:
            about = subject
            adjectives = self.of_each_subject[subject.noun] if subject.noun else self.of_subject
        return because(
            subject,
            self.verb,
            target,
            pick(rng, adjectives),
            about,
            pick(rng, _TENSES),
            "too" if self.negated or rng.random() < 0.5 else "very",
            self.negated,
        )

    def _subject(self, rng: Random, target: Phrase) -> Phrase:
        # Mostly of the object's number, so that the pronoun is mostly ambiguous.
        plural = target.plural if rng.random() < 0.85 else not target.plural
        if self.subjects is PEOPLE:
            return person(rng, plural)
        noun = pick(rng, self.subjects)
        if noun.feminine == target.feminine:  # draw again, so that genders differ more often
            noun = pick(rng, self.subjects)
        return definite(rng, noun, plural)


def _family(
    verb_name: str,
    subjects: tuple[Noun, ...],
    objects: tuple[Noun, ...],
    of_subject: str,
    of_object: str,
    negated: bool = True,
) -> Family:
    subject_adjectives = tuple(map(adjective, of_subject.split()))
    object_adjectives = tuple(map(adjective, of_object.split()))
    of_each_object = {word: describing(word, object_adjectives) for word in objects}
    return Family(
        verb(verb_name),
        subjects,
        tuple(word for word in objects if of_each_object[word]),
        subject_adjectives,
        {word: describing(word, subject_adjectives) for word in subjects},
        of_each_object,
        negated,
    )


_CROSSABLE = of_kind("way", "water", "land")
_WIDE = "wide long narrow steep dangerous deep dark noisy crowded slippery muddy dirty hot"
_WARY = "tired sick shy nervous scared cautious stubborn worried"
_TIRED = _WARY + " weak old young slow lazy hungry thirsty"
_UNWELL = "tired sick nervous scared worried stubborn shy"
_FLAVORS = "cold hot salty sweet hard dry"
_RESTLESS = "hungry thirsty scared nervous worried"
_GLOOMY = "dark noisy crowded dirty damp"

_CROSSING = _family("cross", ANIMALS, _CROSSABLE, _TIRED, _WIDE)
_FITTING = _family(
    "fit in", of_kind("item"), of_kind("container"), "big bulky thick", "small narrow full"
)

# A family that is listed n times is drawn n times as often.
AMBIGUOUS = (
    _CROSSING,
    _CROSSING,
    _CROSSING,
    _FITTING,
    _FITTING,
    _family("cross", of_kind("vehicle"), of_kind("drivable"), "heavy slow old",
            "narrow slippery muddy"),
    _family("climb", ANIMALS, of_kind("height"), _TIRED, "high steep slippery dangerous"),
    _family("enter", ANIMALS, ANIMAL_ROOMS, _WARY, _GLOOMY + " deep narrow"),
    _family("leave", ANIMALS, ANIMAL_ROOMS, _RESTLESS, _GLOOMY, negated=False),
    _family("eat", ANIMALS, NIBBLES, _UNWELL, _FLAVORS),
)  # fmt: skip

OF_PEOPLE = (
    _family("cross", PEOPLE, _CROSSABLE, _TIRED, _WIDE),
    _family("climb", PEOPLE, of_kind("height"), _TIRED, "high steep slippery dangerous"),
    _family("enter", PEOPLE, of_kind("room"), _WARY, _GLOOMY),
    _family("leave", PEOPLE, of_kind("room"), _RESTLESS, _GLOOMY, negated=False),
    _family("eat", PEOPLE, of_kind("food"), _UNWELL, _FLAVORS),
    _family("drink", PEOPLE, of_kind("drink"), _UNWELL, _FLAVORS),
    _family("carry", PEOPLE, of_kind("load"), "tired sick weak old young lazy",
            "heavy"),
    _family("buy", PEOPLE, of_kind("goods"), "shy nervous cautious tired", "expensive small"),
    _family("read", PEOPLE, of_kind("text"), "tired sick nervous worried stubborn lazy",
            "long boring difficult sad"),
)  # fmt: skip


def choices() -> dict[str, set[str]]:
    """Return for each noun of the ambiguous sentences the adjectives that refer to it."""
    referring: dict[str, set[str]] = {}
    for family in AMBIGUOUS:
        for of_each in (family.of_each_subject, family.of_each_object):
            for referent, adjectives in of_each.items():
                names = {adjective.english for adjective in adjectives}
                referring.setdefault(referent.english, set()).update(names)
    return referring


def because_ambiguous(rng: Random) -> Pair:
    """Generate a sentence whose *it* or *they* could grammatically be either noun."""
    return pick(rng, AMBIGUOUS).draw(rng)


def because_person(rng: Random) -> Pair:
    """Generate a sentence about people, whose pronoun is unambiguous in English: he, she."""
    return pick(rng, OF_PEOPLE).draw(rng)


def street_sentences() -> tuple[Pair, Pair]:
    """Return the two sentences of the lecture: the tired animal and the wide street."""
    animal, street, cross = phrase(noun("animal")), phrase(noun("street")), verb("cross")
    return (
        because(animal, cross, street, adjective("tired"), about=animal),
        because(animal, cross, street, adjective("wide"), about=street),
    )
