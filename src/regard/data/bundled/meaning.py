"""What the two languages share: the phrase under construction and the finished pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.data.bundled.words import Noun

Tense = Literal["present", "past", "future"]
Negation = Literal["not", "never", "no longer"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A French sentence and the English sentence that says the same thing."""

    french: str
    english: str
    construction: str
    pronoun: str | None = None
    """In a because-sentence whose English pronoun could grammatically mean either noun: the
    French pronoun its meaning demands (il, elle, ils or elles)."""
    combinations: frozenset[str] = frozenset()
    """The word combinations it uses, such as ``street+wide`` or ``cross+street``."""
    choice: str | None = None
    """Where the two nouns differ in gender, so that a wrong pronoun would show: the combination
    the choice hangs on, such as ``street+wide``."""


class Phrase(NamedTuple):
    """A noun phrase in both languages, with the features that the rest must agree with.

    A named tuple, not a dataclass: several are made for every sentence, and it is the cheaper.
    """

    french: str
    english: str
    feminine: bool = False
    plural: bool = False
    human: bool = False
    first_person: bool = False
    noun: Noun | None = None
    combinations: tuple[str, ...] = ()
