"""The three splits of the bundled corpus: train, dev and pronouns.

Some word combinations (a noun with an adjective, a verb with its object, …) are *reserved*: the
same ones for every seed, selected by a checksum of their spelling. A sentence that uses one is
never in `train`, so that half of `dev` combines known words in new ways, and so that every choice
in `pronouns` depends on a noun and an adjective that were never combined in training.
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

# The two sentences of the lecture are never in the training data.
SHOWCASE = frozenset({"animal+tired", "street+wide"})
_RESERVED_ONE_IN = 14
# Minimum of adjectives for a noun in training: with fewer, *it* is not learned to mean the noun.
_MIN_ADJECTIVES = 2
# Verbs that are never reserved: without "cross+bridge", bridges would have no training sentence.
_NEVER_RESERVED_VERBS = frozenset(family.verb.english for family in AMBIGUOUS + OF_PEOPLE)
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Training pairs, and two sets of pairs that share no sentence with them."""

    train: list[Pair]
    dev: list[Pair]
    pronouns: list[Pair]


@cache
def is_reserved(combination: str) -> bool:
    """Return True if a combination is kept out of training, for every seed."""
    if combination in SHOWCASE:
        return True
    if _NEVER_RESERVED_VERBS.intersection(combination.split("+")):
        return False
    return combination not in _spared() and _checksum(combination) == 0


def _checksum(combination: str) -> int:
    """Return a number that is 0 for reserved combinations; unlike `hash`, the same everywhere."""
    return crc32(combination.encode()) % _RESERVED_ONE_IN


@cache
def _spared() -> frozenset[str]:
    """Return the combinations of each noun with the highest checksums, which are never reserved."""
    spared: set[str] = set()
    for noun, adjectives in choices().items():
        combinations = {f"{noun}+{adjective}" for adjective in adjectives} - SHOWCASE
        by_checksum = sorted(combinations, key=lambda name: (_checksum(name), name))
        spared.update(by_checksum[-_MIN_ADJECTIVES:])
    return frozenset(spared)


def uses_reserved(pair: Pair) -> bool:
    """Return True if a pair uses a reserved combination."""
    return any(map(is_reserved, pair.combinations))


def tests_pronoun(pair: Pair) -> bool:
    """Return True if the French pronoun depends on a combination that is never in training."""
    return pair.choice is not None and is_reserved(pair.choice)


def words(text: str) -> list[str]:
    """Return the lower-case words of a sentence in either language: l'eau is l and eau."""
    return _WORD.findall(text.lower())


def _take(
    count: int, pairs: Iterator[Pair], accept: Callable[[Pair], bool], seen: set[str], what: str
) -> list[Pair]:
    """Return the next ``count`` accepted pairs whose French is not in ``seen`` yet."""
    taken: list[Pair] = []
    # Far more draws than a possible size needs, so that an impossible one ends too.
    for pair in islice(pairs, 20_000 + 200 * count):
        if len(taken) == count:
            break
        if pair.french not in seen and accept(pair):
            seen.add(pair.french)
            taken.append(pair)
    if len(taken) < count:
        raise ValueError(
            f"the grammar gave only {len(taken)} of {count} {what} pairs: choose a smaller size"
        )
    return taken


def corpus(seed: int = 1, train: int = 40_000, dev: int = 1_000, pronouns: int = 500) -> Corpus:
    """Generate a corpus of distinct pairs of these sizes.

    Raises ValueError for sizes that the grammar cannot give.
    """
    if min(train, dev, pronouns) < 0:
        raise ValueError("the size of a split of the corpus cannot be negative")
    pairs, seen = generate(seed), set[str]()
    training = _take(train, pairs, lambda pair: not uses_reserved(pair), seen, "training")
    known = {word for pair in training for word in words(f"{pair.french} {pair.english}")}

    def has_known_words(pair: Pair) -> bool:
        return known.issuperset(words(f"{pair.french} {pair.english}"))

    def is_novel(pair: Pair) -> bool:
        return uses_reserved(pair) and has_known_words(pair)

    def is_familiar(pair: Pair) -> bool:
        return not uses_reserved(pair) and has_known_words(pair)

    def is_ambiguous(pair: Pair) -> bool:
        return tests_pronoun(pair) and has_known_words(pair)

    half = dev // 2
    dev_pairs = _take(half, pairs, is_novel, seen, "dev")
    dev_pairs += _take(dev - half, pairs, is_familiar, seen, "dev")
    ambiguous = _take(pronouns, generate_ambiguous(seed), is_ambiguous, seen, "pronoun")
    return Corpus(training, dev_pairs, ambiguous)
