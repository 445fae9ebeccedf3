"""Types of nouns, adjectives and verbs, and the short constructors that the lexicon uses."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.bundled.spelling import (
    english_past,
    english_plural,
    english_third_person,
    french_feminine,
    french_plural,
)

# Words compare by identity (eq=False): each exists once, and is a cheap key.


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    english: str
    english_plural: str
    french: str
    french_plural: str
    feminine: bool
    kinds: frozenset[str]
    mass: bool = False  # water, bread: no plural, "some" in the singular

    def __repr__(self) -> str:
        return f"Noun({self.english!r}, {self.french!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    english: str
    comparative: str | None
    forms: tuple[str, str, str, str]  # masculine, feminine, and the two plurals
    before_vowel: str  # bel, vieil, nouvel
    precedes: bool  # un petit chat, but un chat noir
    predicative: bool  # la rue est large; but one doesn't say "la lampe est nouvelle"
    kinds: frozenset[str]

    def __repr__(self) -> str:
        return f"Adjective({self.english!r}, {self.forms[0]!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    english: str  # with its preposition: "look for"
    third: str
    past: str
    infinitive: str
    present: tuple[str, str]  # il / ils
    participle: str
    future: tuple[str, str]
    preposition: str  # the French one: "aller à"
    etre: bool  # takes être in the passé composé
    imperfect: tuple[str, str] | None  # for a state: its past is the imparfait
    subjects: frozenset[str]
    objects: frozenset[str]

    def __repr__(self) -> str:
        return f"Verb({self.english!r}, {self.infinitive!r})"


def _noun(
    french: str, english: str, kinds: str, feminine: bool, plural: str, plurals: str, mass: bool
) -> Noun:
    return Noun(
        english=english,
        english_plural=plurals or english_plural(english),
        french=french,
        french_plural=plural or french_plural(french),
        feminine=feminine,
        kinds=frozenset(kinds.split()),
        mass=mass,
    )


def le(
    french: str, english: str, kinds: str, fr: str = "", en: str = "", mass: bool = False
) -> Noun:
    """Return a masculine noun; ``fr`` and ``en`` are its plurals where they are irregular."""
    return _noun(french, english, kinds, False, fr, en, mass)


def la(
    french: str, english: str, kinds: str, fr: str = "", en: str = "", mass: bool = False
) -> Noun:
    """Return a feminine noun; ``fr`` and ``en`` are its plurals where they are irregular."""
    return _noun(french, english, kinds, True, fr, en, mass)


def _adjective(
    french: str, english: str, kinds: str, precedes: bool, fem: str, vowel: str, more: str | None
) -> Adjective:
    feminine = fem or french_feminine(french)
    forms = (french, feminine, french_plural(french), feminine + "s")
    predicative = french != "nouveau"
    return Adjective(
        english, more, forms, vowel or french, precedes, predicative, frozenset(kinds.split())
    )


def before(
    french: str, english: str, kinds: str, fem: str = "", vowel: str = "", more: str | None = None
) -> Adjective:
    """Return an adjective that precedes its noun: *une petite souris*."""
    return _adjective(french, english, kinds, True, fem, vowel, more)


def after(
    french: str, english: str, kinds: str, fem: str = "", more: str | None = None
) -> Adjective:
    """Return an adjective that follows its noun: *une souris blanche*."""
    return _adjective(french, english, kinds, False, fem, "", more)


def irregular(
    infinitive: str,
    english: str,
    subjects: str,
    objects: str,
    french: str,
    past: str = "",
    third: str = "",
    preposition: str = "",
    etre: bool = False,
    imperfect: tuple[str, str] | None = None,
) -> Verb:
    """Return an irregular verb.

    ``french`` is il, ils, the participle, and il in the future: "voit voient vu verra".
    """
    singular, plural, participle, future = french.split()
    return Verb(
        english=english,
        third=third or english_third_person(english),
        past=past or english_past(english),
        infinitive=infinitive,
        present=(singular, plural),
        participle=participle,
        future=(future, future[:-1] + "ont"),
        preposition=preposition,
        etre=etre,
        imperfect=imperfect,
        subjects=frozenset(subjects.split()),
        objects=frozenset(objects.split()),
    )


def er(
    infinitive: str,
    english: str,
    subjects: str,
    objects: str = "",
    past: str = "",
    preposition: str = "",
    etre: bool = False,
) -> Verb:
    """Return a regular verb of the first group: *traverser, il traverse, il traversera*."""
    stem = infinitive.removesuffix("er")
    forms = f"{stem}e {stem}ent {stem}é {infinitive}a"
    return irregular(
        infinitive, english, subjects, objects, forms, past, preposition=preposition, etre=etre
    )
