"""Sentences with places: prepositions, and the nouns that suit each of them."""

from __future__ import annotations

from random import Random

from regard.data.bundled import english, french
from regard.data.bundled.lexicon import ANIMALS, INTRANSITIVE, PEOPLE, noun, of_kind
from regard.data.bundled.meaning import Pair, Phrase, Tense
from regard.data.bundled.phrases import (
    NOTHING,
    clause,
    counted,
    definite,
    finish,
    indefinite,
    pick,
    subject_of,
    tense_for,
    timed,
)
from regard.data.bundled.words import Noun

# Prepositions, and the nouns that may follow them.
Places = tuple[tuple[str, ...], tuple[Noun, ...]]

_PREPOSITIONS = {
    "in": "dans",
    "on": "sur",
    "under": "sous",
    "behind": "derrière",
    "in front of": "devant",
    "near": "près de",
    "next to": "à côté de",
}
_AROUND = ("behind", "in front of", "near", "next to")
_INDOORS = (("in",), of_kind("room", "home"))
_SHELTERED = (("in",), tuple(map(noun, ("barn", "garage", "garden", "cave", "house", "yard"))))
_OUTDOORS = (_AROUND, of_kind("building", "plant"))
_WATERSIDE = (("near",), of_kind("water", "land", "height"))
_SHADE = (("under",), of_kind("plant"))
BACKDROPS = (
    (_SHELTERED, _OUTDOORS, _WATERSIDE, _SHADE),  # of animals
    (_INDOORS, _INDOORS, _OUTDOORS, _WATERSIDE),  # of people
)
SETTINGS = (
    (of_kind("item", "trinket"), (("on", "under", "near", "next to"), of_kind("furniture"))),
    (of_kind("item", "trinket"), (("in",), of_kind("container"))),
    (of_kind("vehicle"), (_AROUND, of_kind("building", "plant"))),
    (ANIMALS, _SHELTERED),
    (ANIMALS, _OUTDOORS),
    (ANIMALS, _WATERSIDE),
    (of_kind("little"), (("on", "under", "behind"), of_kind("furniture"))),
    (of_kind("little"), (("in",), of_kind("home"))),
    (PEOPLE, _INDOORS),
    (PEOPLE, _OUTDOORS),
)


def place(rng: Random, places: Places) -> Phrase:
    """Draw a preposition and its noun: près de la rivière, near the river."""
    prepositions, nouns = places
    preposition, noun = pick(rng, prepositions), pick(rng, nouns)
    several = preposition in _AROUND and rng.random() < 0.25
    where = definite(rng, noun, plural=several)
    return Phrase(
        f"{_PREPOSITIONS[preposition]} {where.french}",
        f"{preposition} {where.english}",
        combinations=(f"{preposition}+{noun.english}",),
    )


def location(rng: Random) -> Pair:
    """Generate a location: Les clés de Marie sont sous le lit."""
    nouns, places = pick(rng, SETTINGS)
    subject = definite(rng, pick(rng, nouns))
    where = place(rng, places)
    tense: Tense = pick(rng, ("present", "past"))
    negated = rng.random() < 0.2
    return finish(
        "location",
        f"{subject.french} {french.to_be(tense, subject.plural, negated)} {where.french}",
        f"{subject.english} {english.to_be(tense, subject.plural, negated)} {where.english}",
        where.combinations,
    )


def there_is(rng: Random) -> Pair:
    """Generate a there-is clause: Il y a trois chats noirs derrière la maison."""
    nouns, places = pick(rng, SETTINGS)
    noun = pick(rng, tuple(noun for noun in nouns if "kin" not in noun.kinds))
    subject = counted(rng, noun) if rng.random() < 0.4 else indefinite(rng, noun)
    where = place(rng, places)
    return finish(
        "there-is",
        f"il y a {subject.french} {where.french}",
        f"there {'are' if subject.plural else 'is'} {subject.english} {where.english}",
        subject.combinations + where.combinations,
    )


def activity(rng: Random) -> Pair:
    """Generate an activity: Les enfants jouent dans le jardin. Le chat dort."""
    verb = pick(rng, INTRANSITIVE)
    subject = subject_of(rng, verb)
    tense = tense_for(rng, verb, subject)
    # The shortest sentences: a model that is never trained on any does not learn to stop early.
    where = NOTHING if rng.random() < 0.5 else place(rng, pick(rng, BACKDROPS[subject.human]))
    if rng.random() < 0.2:
        return finish("activity", *clause(subject, verb, where, tense, "not"))
    return finish("activity", *timed(rng, clause(subject, verb, where, tense), tense))
