"""The unigram model (Kudo 2018): of all ways to cut a word, the most probable one.

    P(word) = Π P(piece)        P(piece) = how often it is used / how often any is

Beginning with more pieces than asked for, all words are cut by the pieces there are, the pieces are
counted anew, and the quarter that would be missed least is dropped, until few enough are left.

The library's own trainer never proposes a word that is part of no other word, cuts a text into some
15 % more pieces for it, and does not give the same scores twice.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tokenizers import Tokenizer as Backend
from tokenizers import models

from regard.data.tokenizers.base import LearnedSpec
from regard.data.tokenizers.merging import Merging
from regard.data.tokenizers.tokenizer import UNKNOWN

LONGEST = 16  # characters of a piece, as in SentencePiece
WORDS_AT_ONCE = 10_000

Counts = dict[str, int]
Scores = dict[str, float]  # log P


class Spec(LearnedSpec):
    """tokenizer: {kind: unigram, vocabulary: 8000}"""

    def learn(
        self, backend: Backend, lines: Iterable[str], first: Sequence[str], room: int
    ) -> models.Model:
        merging = Merging(backend, lines, room, LONGEST)
        words = merging.words()
        counts = used(scored(occurrences(merging.first(2 * room)[0], words)), words)
        while len(counts) > room:
            counts = used(scored(pruned(counts, max(room, len(counts) * 3 // 4))), words)
        vocabulary = [*((piece, 0.0) for piece in first), *scored(counts).items()]
        return models.Unigram(vocabulary, first.index(UNKNOWN), byte_fallback=True)


def occurrences(pieces: Iterable[str], words: Mapping[str, int]) -> Counts:
    """How often each piece could be used."""
    counts = dict.fromkeys(pieces, 0)
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST, len(word)) + 1):
                if (piece := word[start:end]) in counts:
                    counts[piece] += count
    return counts


def used(scores: Scores, words: Mapping[str, int]) -> Counts:
    """How often each piece is used when every word is cut its best way; the unused are left out,
    except characters, without which some words could not be cut."""
    pieces = [UNKNOWN, *scores]
    backend = Backend(models.Unigram([(UNKNOWN, 0.0), *scores.items()], 0))
    counts = [0] * len(pieces)
    for batch in _batches(words):
        cuts = backend.encode_batch_fast(batch, add_special_tokens=False)
        for word, cut in zip(batch, cuts, strict=True):
            for piece in cut.ids:
                counts[piece] += words[word]
    counted = list(zip(pieces, counts, strict=True))[1:]
    return {piece: count for piece, count in counted if count or len(piece) == 1}


def scored(counts: Counts) -> Scores:
    """An unused character counts as half a use: it stays possible."""
    total = math.log(sum(counts.values()) or 1)
    return {piece: math.log(count or 0.5) - total for piece, count in counts.items()}


def pruned(counts: Counts, number: int) -> Counts:
    """The pieces whose loss would make the text least probable, and all characters."""
    scores = scored(counts)

    def loss(piece: str) -> float:
        if len(piece) == 1:
            return math.inf
        return counts[piece] * (scores[piece] - without(piece, scores))

    ranked = sorted(counts, key=lambda piece: (-loss(piece), piece))
    kept = set(ranked[:number])
    return {piece: count for piece, count in counts.items() if piece in kept}


def without(piece: str, scores: Scores) -> float:
    """log P of the best cut of a piece into others."""
    best = [0.0] + [-math.inf] * len(piece)
    for end in range(1, len(piece) + 1):
        for start in range(end == len(piece), end):
            if (part := scores.get(piece[start:end])) is not None:
                best[end] = max(best[end], best[start] + part)
    return best[-1]


def _batches(words: Iterable[str]) -> Iterator[list[str]]:
    words = iter(words)
    while batch := list(islice(words, WORDS_AT_ONCE)):
        yield batch
