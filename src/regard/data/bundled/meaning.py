"""Types that both languages share: a noun phrase and a finished sentence pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.data.bundled.words import Noun

Tense = Literal["present", "past", "future"]
Negation = Literal["not", "never", "no longer"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A French sentence and its English translation."""

    french: str
    english: str
    construction: str
    pronoun: str | None = None
    """In a because-sentence whose English pronoun could grammatically mean either noun: the
    correct French pronoun (il, elle, ils or elles)."""
    combinations: frozenset[str] = frozenset()
    """Word combinations of the sentence, such as ``street+wide`` or ``cross+street``."""
    choice: str | None = None
    """Set if the two nouns differ in gender, so that a wrong pronoun is visible: the combination
    that decides, such as ``street+wide``."""


class Phrase(NamedTuple):
    """A noun phrase in both languages, with the features that the rest must agree with.

    A named tuple, because it is cheaper than a dataclass and every sentence has several.
    """

    french: str
    english: str
    feminine: bool = False
    plural: bool = False
    human: bool = False
    first_person: bool = False
    noun: Noun | None = None
    combinations: tuple[str, ...] = ()
