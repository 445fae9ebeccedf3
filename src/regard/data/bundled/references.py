"""Sentences that mention one thing twice: clitic pronouns and relative clauses."""

from __future__ import annotations

from random import Random

from regard.data.bundled import english, french
from regard.data.bundled.lexicon import ANIMALS, GIVING, INTRANSITIVE, PEOPLE, TRANSITIVE, verb
from regard.data.bundled.meaning import Negation, Pair, Phrase, Tense
from regard.data.bundled.phrases import (
    OBJECTS_OF,
    PREDICATES_OF,
    I,
    any_phrase,
    clause,
    combinations,
    definite,
    finish,
    indefinite,
    is_plural,
    object_noun,
    person,
    phrase,
    pick,
    quality,
    subject_of,
    tense_for,
)
from regard.data.bundled.places import BACKDROPS, place
from regard.data.bundled.words import Noun, Verb


def _shared(first: Verb, second: Verb) -> tuple[Noun, ...]:
    return tuple(noun for noun in OBJECTS_OF[first] if noun in OBJECTS_OF[second])


def _other_than(subject: Phrase, rng: Random, nouns: tuple[Noun, ...]) -> Noun:
    noun = pick(rng, nouns)
    return noun if noun is not subject.noun else _other_than(subject, rng, nouns)


# Verb pairs for two actions on the same thing.
_CHAINS = tuple(
    (verb(first), verb(second), _shared(verb(first), verb(second)))
    for first, second in (
        ("buy", "eat"),
        ("buy", "read"),
        ("buy", "hide"),
        ("break", "hide"),
        ("find", "read"),
        ("find", "hide"),
        ("find", "open"),
        ("find", "carry"),
        ("see", "follow"),
        ("see", "call"),
        ("see", "draw"),
        ("open", "close"),
        ("watch", "follow"),
        ("watch", "draw"),
    )
)
# Excluded: "when she opened it, she closed it" are not simultaneous.
_SUDDEN = tuple(chain for chain in _CHAINS if chain[0].english not in ("watch", "open"))


def _continued(verb: Verb, tense: Tense, subject: Phrase, negation: Negation | None = None) -> str:
    """Build the English continuation, with "will" only once: she will find the key and hide it."""
    if tense == "future" and not negation:
        return verb.english
    return english.verb_group(verb, tense, subject, negation)


def _repeated(
    verb: Verb, tense: Tense, subject: Phrase, target: Phrase, negated: bool
) -> tuple[str, str]:
    """Build the second mention: la mange, l'a mangée; eats it, ate it."""
    negation: Negation | None = "not" if negated else None
    clitic = french.object_pronoun(target)
    return (
        french.verb_group(verb, tense, subject, negation, clitic, agreeing=target),
        f"{_continued(verb, tense, subject, negation)} {english.object_pronoun(target)}",
    )


def clitic(rng: Random) -> Pair:
    """Generate a clitic pronoun: Marie a acheté une pomme et l'a mangée."""
    first, second, nouns = pick(rng, _CHAINS)
    subject, tense = person(rng), tense_for(rng, first, I)
    noun = _other_than(subject, rng, nouns)
    target = any_phrase(rng, noun)
    negated = rng.random() < 0.25
    opening = clause(subject, first, target, tense)
    again = _repeated(second, tense, subject, target, negated)
    conjunction = ("mais", "but") if negated else ("et", "and")
    return finish(
        "clitic",
        f"{opening.french} {conjunction[0]} {again[0]}",
        f"{opening.english} {conjunction[1]} {again[1]}",
        (*opening.combinations, f"{second.english}+{noun.english}"),
    )


def when(rng: Random) -> Pair:
    """Generate a when clause: Quand Paul a vu la vache, il l'a appelée."""
    first, second, nouns = pick(rng, _SUDDEN)
    subject = person(rng)
    noun = _other_than(subject, rng, nouns)
    target = definite(rng, noun)
    opening = clause(subject, first, target, "past")
    again = _repeated(second, "past", subject, target, rng.random() < 0.15)
    return finish(
        "when",
        f"quand {opening.french}, {french.subject_pronoun(subject)} {again[0]}",
        f"when {opening.english}, {english.subject_pronoun(subject)} {again[1]}",
        (*opening.combinations, f"{second.english}+{noun.english}"),
    )


_GREETING = tuple(map(verb, ("see", "call", "help")))


def giving(rng: Random) -> Pair:
    """Generate a verb with an indirect object: La reine a donné un livre au prince."""
    verb, subject = pick(rng, GIVING), person(rng)
    noun = pick(rng, OBJECTS_OF[verb])
    gift = definite(rng, noun) if rng.random() < 0.4 else indefinite(rng, noun)
    receiver = person(rng)
    # No two names, because the second might be the first.
    while receiver.noun is subject.noun:
        receiver = person(rng)
    if rng.random() < 0.5:
        tense = tense_for(rng, verb, subject)
        statement = clause(subject, verb, gift, tense)
        return finish(
            "giving",
            f"{statement.french} à {receiver.french.replace(' et ', ' et à ')}",
            f"{statement.english} to {receiver.english}",
            statement.combinations,
        )
    return _giving_again(rng, verb, subject, gift, receiver)


def _giving_again(rng: Random, verb: Verb, subject: Phrase, gift: Phrase, receiver: Phrase) -> Pair:
    """Generate an indirect clitic pronoun: La reine a appelé le prince et lui a donné un livre."""
    first = pick(rng, _GREETING)
    tense = tense_for(rng, first, subject)
    opening = clause(subject, first, receiver, tense)
    verb_phrase = french.verb_group(verb, tense, subject, clitic=french.indirect_pronoun(receiver))
    gives = _continued(verb, tense, subject)
    return finish(
        "giving",
        f"{opening.french} et {verb_phrase} {gift.french}",
        f"{opening.english} and {gives} {english.object_pronoun(receiver)} {gift.english}",
        opening.combinations + combinations(subject, verb, gift),
    )


_TOWARDS = tuple(map(verb, ("follow", "watch", "see", "look for", "call", "help")))


def me_and_us(rng: Random) -> Pair:
    """Generate a first-person object: Le loup nous suit."""
    verb = pick(rng, _TOWARDS)
    subject = subject_of(rng, verb)
    while not subject.noun:  # "Paul follows me" would be too short
        subject = subject_of(rng, verb)
    # Not in the past: "nous a vus" or "vues" would depend on the gender of the speakers.
    tense: Tense = pick(rng, ("present", "future"))
    negation: Negation | None = "not" if rng.random() < 0.35 else None
    pronoun = pick(rng, (("me", "me"), ("nous", "us")))
    return finish(
        "me-and-us",
        f"{subject.french} {french.verb_group(verb, tense, subject, negation, pronoun[0])}",
        f"{subject.english} {english.verb_group(verb, tense, subject, negation)} {pronoun[1]}",
        combinations(subject, verb),
    )


# Excluded: "my brother who sings" needs commas.
_STRANGERS = tuple(noun for noun in PEOPLE if "kin" not in noun.kinds)


def relative_subject(rng: Random) -> Pair:
    """Generate a subject relative clause: Le chat qui dort dans la cuisine est gris."""
    verb = pick(rng, TRANSITIVE if rng.random() < 0.6 else INTRANSITIVE)
    noun = pick(rng, ANIMALS if "animal" in verb.subjects and rng.random() < 0.5 else _STRANGERS)
    subject = phrase(noun, "the", is_plural(rng, noun))
    if verb.objects:
        target = definite(rng, object_noun(rng, verb, subject))
    else:
        target = place(rng, pick(rng, BACKDROPS[subject.human]))
    tense = tense_for(rng, verb, subject)
    state: Tense = "past" if tense == "past" else "present"
    adjective, used = quality(rng, subject, noun)
    relative = subject._replace(
        french=f"{subject.french} qui",
        english=f"{subject.english} {'who' if subject.human else 'that'}",
    )
    statement = clause(relative, verb, target, tense)
    form = french.agree(adjective, subject.feminine, subject.plural)
    return finish(
        "relative-subject",
        f"{statement.french} {french.to_be(state, subject.plural)} {form}",
        f"{statement.english} {english.to_be(state, subject.plural)} {adjective.english}",
        used + statement.combinations,
    )


_SEPARABLE = (
    *map(verb, ("buy", "read", "eat", "open", "close", "lose")),
    *map(verb, ("find", "carry", "hide", "draw", "follow", "call")),
)


def relative_object(rng: Random) -> Pair:
    """Generate an object relative clause: La pomme que Marie a achetée est verte."""
    verb, subject = pick(rng, _SEPARABLE), person(rng)
    noun = object_noun(rng, verb, subject)
    while "person" in noun.kinds or not PREDICATES_OF[noun]:
        noun = object_noun(rng, verb, subject)
    thing = phrase(noun, "the", is_plural(rng, noun))
    tense = tense_for(rng, verb, subject)
    adjective, used = quality(rng, thing, noun)
    # Verbs after which the object still exists: it may have been bought and be red, but not eaten.
    over = tense == "past" and (verb.english == "eat" or rng.random() < 0.5)
    state: Tense = "past" if over else "present"
    group = french.verb_group(verb, tense, subject, agreeing=thing)
    form = french.agree(adjective, thing.feminine, thing.plural)
    return finish(
        "relative-object",
        f"{thing.french} que {subject.french} {group} {french.to_be(state, thing.plural)} {form}",
        f"{thing.english} that {subject.english} {english.verb_group(verb, tense, subject)}"
        f" {english.to_be(state, thing.plural)} {adjective.english}",
        used + combinations(subject, verb, thing),
    )
