"""The three parts of the corpus: what is learned from, and what is kept back to test it.

Some word combinations (a noun with an adjective, a verb with its object, ...) are *reserved*: the
same ones for every seed, told by a checksum of their spelling. A sentence that uses one never
enters `train`, so that half of `dev` puts familiar words together as never seen before, and
so that every choice in `pronouns` hangs on a noun and an adjective never met together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from zlib import crc32

from regard.data.bundled.because import AMBIGUOUS, OF_PEOPLE, choices
from regard.data.bundled.grammar import generate, generate_ambiguous
from regard.data.bundled.meaning import Pair

# The two famous sentences are always a test, never a memory.
SHOWCASE = frozenset({"animal+tired", "street+wide"})
_ONE_IN = 14
# A noun that adjectives point at too rarely would not be learned as something *it* can mean.
_FEWEST_LEFT = 2
# Verbs that are never reserved: without "cross+bridge", bridges would lose all their practice.
_PRACTISED = frozenset(family.verb.english for family in AMBIGUOUS + OF_PEOPLE)
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs to learn from, and two sets of pairs that share no sentence with them."""

    train: list[Pair]
    dev: list[Pair]
    pronouns: list[Pair]


@cache
def is_reserved(combination: str) -> bool:
    """Whether a combination is kept out of training, for every seed."""
    if combination in SHOWCASE:
        return True
    if _PRACTISED.intersection(combination.split("+")):
        return False
    return combination not in _spared() and _checksum(combination) == 0


def _checksum(combination: str) -> int:
    """From 0, which is reserved, up; the same on every machine, unlike `hash`."""
    return crc32(combination.encode()) % _ONE_IN


@cache
def _spared() -> frozenset[str]:
    """Of each noun's choices, the few with the highest checksums, which are never reserved."""
    spared: set[str] = set()
    for noun, adjectives in choices().items():
        combinations = {f"{noun}+{adjective}" for adjective in adjectives} - SHOWCASE
        by_checksum = sorted(combinations, key=lambda each: (_checksum(each), each))
        spared.update(by_checksum[-_FEWEST_LEFT:])
    return frozenset(spared)


def uses_reserved(pair: Pair) -> bool:
    return any(map(is_reserved, pair.combinations))


def tests_pronoun(pair: Pair) -> bool:
    """Whether French must choose between two genders, on a combination never met in training."""
    return pair.choice is not None and is_reserved(pair.choice)


def words(text: str) -> list[str]:
    """The words of a sentence, lower-cased, in either language: l'eau is l and eau."""
    return _WORD.findall(text.lower())


def _take(
    count: int, pairs: Iterator[Pair], accept: Callable[[Pair], bool], seen: set[str], what: str
) -> list[Pair]:
    """The next ``count`` acceptable pairs whose French has not been ``seen`` yet."""
    taken: list[Pair] = []
    # Far more draws than a reasonable size needs, so that an unreasonable one ends too.
    for pair in islice(pairs, 20_000 + 200 * count):
        if len(taken) == count:
            break
        if pair.french not in seen and accept(pair):
            seen.add(pair.french)
            taken.append(pair)
    if len(taken) < count:
        raise ValueError(
            f"the grammar gave only {len(taken)} of {count} {what} pairs: ask for fewer"
        )
    return taken


def corpus(seed: int = 1, train: int = 40_000, dev: int = 1_000, pronouns: int = 500) -> Corpus:
    """Draw a corpus of distinct pairs; `ValueError` for sizes the grammar cannot give."""
    if min(train, dev, pronouns) < 0:
        raise ValueError("the size of a part of the corpus cannot be negative")
    pairs, seen = generate(seed), set[str]()
    learned = _take(train, pairs, lambda pair: not uses_reserved(pair), seen, "training")
    known = {word for pair in learned for word in words(f"{pair.french} {pair.english}")}

    def readable(pair: Pair) -> bool:
        return known.issuperset(words(f"{pair.french} {pair.english}"))

    def novel(pair: Pair) -> bool:
        return uses_reserved(pair) and readable(pair)

    def fresh(pair: Pair) -> bool:
        return not uses_reserved(pair) and readable(pair)

    def puzzling(pair: Pair) -> bool:
        return tests_pronoun(pair) and readable(pair)

    half = dev // 2
    kept = _take(half, pairs, novel, seen, "held-out")
    kept += _take(dev - half, pairs, fresh, seen, "held-out")
    puzzles = _take(pronouns, generate_ambiguous(seed), puzzling, seen, "pronoun")
    return Corpus(learned, kept, puzzles)
