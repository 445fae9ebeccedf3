"""The grammar: the frequency of each construction, and the generator of sentence pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from random import Random

from regard.data.bundled import places, questions, references, statements
from regard.data.bundled.because import because_ambiguous, because_person
from regard.data.bundled.meaning import Pair

# A third are because-sentences: this corpus is for learning the choice of a pronoun.
PERCENTAGES: dict[Callable[[Random], Pair], int] = {
    because_ambiguous: 31,
    because_person: 5,
    statements.simple: 7,
    statements.first_person: 2,
    statements.negation: 6,
    statements.attribute: 6,
    statements.comparison: 2,
    statements.motion: 4,
    places.location: 2,
    places.there_is: 3,
    places.activity: 3,
    statements.number: 2,
    statements.partitive: 2,
    references.clitic: 4,
    references.when: 2,
    references.giving: 2,
    references.me_and_us: 1,
    references.relative_subject: 3,
    references.relative_object: 3,
    questions.question: 3,
    questions.question_where: 1,
    questions.question_who: 1,
    questions.question_what: 1,
    statements.modal: 4,
}


def generate(seed: int) -> Iterator[Pair]:
    """Yield pairs without end, determined by the seed; a pair may repeat."""
    rng = Random(seed)
    constructions, bounds = list(PERCENTAGES), list(accumulate(PERCENTAGES.values()))
    while True:
        for construct in rng.choices(constructions, cum_weights=bounds, k=256):
            yield construct(rng)


def generate_ambiguous(seed: int) -> Iterator[Pair]:
    """Yield only because-sentences about animals and things, without end."""
    rng = Random(seed)
    while True:
        yield because_ambiguous(rng)
