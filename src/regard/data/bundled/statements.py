"""Plain statements: one short function for each construction, with an example."""

from __future__ import annotations

from random import Random

from regard.data.bundled import english, french
from regard.data.bundled.lexicon import ANIMALS, MOTION, NOUNS, PEOPLE, TRANSITIVE, of_kind, verb
from regard.data.bundled.meaning import Negation, Pair, Tense
from regard.data.bundled.phrases import (
    ADJECTIVES_OF,
    PREDICATES_OF,
    WE,
    I,
    any_phrase,
    clause,
    combinations,
    counted,
    definite,
    finish,
    indefinite,
    name,
    object_noun,
    person,
    pick,
    quality,
    subject_of,
    tense_for,
    timed,
)

_FREQUENCIES = (("souvent", "often"), ("toujours", "always"))
_DEGREES = (("très ", "very "), ("trop ", "too "), ("", ""))


def simple(rng: Random) -> Pair:
    """Generate a simple clause: La fille a acheté un petit chapeau rouge hier."""
    verb = pick(rng, TRANSITIVE)
    subject = subject_of(rng, verb)
    tense = tense_for(rng, verb, subject)
    noun = object_noun(rng, verb, subject)
    if tense == "present" and rng.random() < 0.3:
        adverb = pick(rng, _FREQUENCIES)
        return finish("simple", *clause(subject, verb, definite(rng, noun), tense, adverb=adverb))
    statement = clause(subject, verb, any_phrase(rng, noun), tense)
    return finish("simple", *timed(rng, statement, tense))


_UNDER_FIRST_PERSON = tuple(verb for verb in TRANSITIVE if verb.past != verb.english)


def first_person(rng: Random) -> Pair:
    """Generate a first-person clause: J'ai perdu les clés."""
    verb, subject = pick(rng, _UNDER_FIRST_PERSON), pick(rng, (I, WE))
    target = any_phrase(rng, object_noun(rng, verb, subject))
    negated = rng.random() < 0.3
    if negated:
        target = definite(rng, object_noun(rng, verb, subject))
    statement = clause(subject, verb, target, "past", "not" if negated else None)
    return finish("first-person", *timed(rng, statement, "past"))


def negation(rng: Random) -> Pair:
    """Generate a negated clause: Le chat ne boit plus le lait."""
    verb = pick(rng, TRANSITIVE)
    subject = subject_of(rng, verb)
    tense = tense_for(rng, verb, subject)
    # Definite: "un" would become "de" after a negation.
    target = definite(rng, object_noun(rng, verb, subject))
    negations: tuple[Negation, ...] = ("not", "not", "never")
    if tense == "present":
        negations += ("no longer",)
    return finish("negation", *clause(subject, verb, target, tense, pick(rng, negations)))


_DESCRIBED = tuple(noun for noun in NOUNS if PREDICATES_OF[noun])


def attribute(rng: Random) -> Pair:
    """Generate an attribute: La montagne n'est pas très haute."""
    noun = pick(rng, _DESCRIBED)
    subject = definite(rng, noun)
    adjective, used = quality(rng, subject, noun)
    degree, negated = pick(rng, _DEGREES), rng.random() < 0.25
    tense: Tense = pick(rng, ("present", "past"))
    form = french.agree(adjective, subject.feminine, subject.plural)
    return finish(
        "attribute",
        f"{subject.french} {french.to_be(tense, subject.plural, negated)} {degree[0]}{form}",
        f"{subject.english} {english.to_be(tense, subject.plural, negated)}"
        f" {degree[1]}{adjective.english}",
        used,
    )


_COMPARABLE = (
    ANIMALS,
    PEOPLE,
    *(of_kind(kind) for kind in ("way", "goods", "text", "building", "vehicle")),
)
_GRADED_OF = {
    noun: tuple(adjective for adjective in ADJECTIVES_OF[noun] if adjective.comparative)
    for noun in NOUNS
}


def comparison(rng: Random) -> Pair:
    """Generate a comparison: Cette lampe est plus chère que le miroir."""
    nouns = pick(rng, _COMPARABLE)
    first, second = pick(rng, nouns), pick(rng, nouns)
    shared = [adjective for adjective in _GRADED_OF[first] if adjective in _GRADED_OF[second]]
    if first is second or not shared:
        return comparison(rng)
    subject, standard, adjective = definite(rng, first), definite(rng, second), pick(rng, shared)
    tense: Tense = pick(rng, ("present", "past"))
    form = french.agree(adjective, subject.feminine, subject.plural)
    used = tuple(f"{noun.english}+{adjective.english}" for noun in (first, second))
    return finish(
        "comparison",
        f"{subject.french} {french.to_be(tense, subject.plural)} plus {form} que {standard.french}",
        f"{subject.english} {english.to_be(tense, subject.plural)} {adjective.comparative}"
        f" than {standard.english}",
        used,
    )


def motion(rng: Random) -> Pair:
    """Generate a verb of motion: Les filles sont allées au marché."""
    verb = pick(rng, MOTION)
    subject = subject_of(rng, verb)
    tense = tense_for(rng, verb, subject)
    target = definite(rng, object_noun(rng, verb, subject), plural=False)
    if rng.random() < 0.2:
        return finish("motion", *clause(subject, verb, target, tense, "not"))
    return finish("motion", *timed(rng, clause(subject, verb, target, tense), tense))


_COUNTABLE = tuple(noun for noun in of_kind("owned", "goods", "fruit") if not noun.mass)
_COUNTING = tuple(map(verb, ("buy", "see", "draw", "find")))


def number(rng: Random) -> Pair:
    """Generate a number: Paul a douze petites boîtes."""
    subject = pick(rng, (I, WE)) if rng.random() < 0.2 else person(rng)
    if rng.random() < 0.5:
        target = counted(rng, pick(rng, _COUNTABLE))
        base = subject.plural or subject.first_person
        return finish(
            "number",
            f"{subject.french} {french.to_have(subject)} {target.french}",
            f"{subject.english} {'have' if base else 'has'} {target.english}",
            (*target.combinations, f"have+{target.noun.english if target.noun else ''}"),
        )
    verb = pick(rng, _COUNTING)
    tense = "past" if subject.first_person else tense_for(rng, verb, subject)
    noun = object_noun(rng, verb, subject)
    while noun.mass or "kin" in noun.kinds:
        noun = object_noun(rng, verb, subject)
    return finish("number", *clause(subject, verb, counted(rng, noun), tense))


# Third person singular and plural, then I and we.
_MODALS = (
    ("can", "can", "can't", "peut", "peuvent", "peux", "pouvons"),
    ("must", "must", "mustn't", "doit", "doivent", "dois", "devons"),
    ("want to", "wants to", "want to", "veut", "veulent", "veux", "voulons"),
)


_ACCIDENTS = ("lose", "break", "find", "fall into", "arrive at")
_INTENDED = tuple(verb for verb in TRANSITIVE + MOTION if verb.english not in _ACCIDENTS)


def modal(rng: Random) -> Pair:
    """Generate a modal verb: Nous ne pouvons pas escalader ce mur."""
    base, third, contracted, *forms = pick(rng, _MODALS)
    verb = pick(rng, _INTENDED)
    subject = pick(rng, (I, WE)) if rng.random() < 0.3 else subject_of(rng, verb)
    target = definite(rng, object_noun(rng, verb, subject))
    form = forms[2 * subject.first_person + subject.plural]
    singular = not (subject.plural or subject.first_person)
    in_english, in_french = third if singular else base, form
    if rng.random() < 0.4:
        in_french = f"ne {form} pas"
        if base == "want to":
            contracted = "doesn't want to" if singular else "don't want to"
        in_english = contracted
    return finish(
        "modal",
        f"{subject.french} {in_french} {verb.infinitive}"
        f"{' ' + verb.preposition if verb.preposition else ''} {target.french}",
        f"{subject.english} {in_english} {verb.english} {target.english}",
        combinations(subject, verb, target),
    )


_CONSUMING = tuple(map(verb, ("eat", "drink", "buy")))


def partitive(rng: Random) -> Pair:
    """Generate a partitive article: Louise a mangé du poisson frais."""
    verb = pick(rng, _CONSUMING)
    subject = name(rng) if rng.random() < 0.4 else subject_of(rng, verb)
    noun = object_noun(rng, verb, subject)
    while not noun.mass:
        noun = object_noun(rng, verb, subject)
    tense = tense_for(rng, verb, subject)
    statement = clause(subject, verb, indefinite(rng, noun), tense)
    return finish("partitive", *timed(rng, statement, tense))
