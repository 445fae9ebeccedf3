"""The unigram language model (Kudo 2018): the most probable segmentation of a word.

    P(word) = Π P(piece)        P(piece) = uses of the piece / uses of all pieces

Training starts with twice as many pieces as needed. All words are segmented, the pieces are counted
again, and the quarter whose removal costs least likelihood is dropped, until few enough are left.

The library's own trainer never proposes a word that is part of no other word, gives some 15 % more
pieces for a text because of it, and does not give the same scores twice.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tokenizers import Tokenizer as Backend
from tokenizers import models

from regard.data.tokenizers.base import LearnedSpec
from regard.data.tokenizers.bpe_merges import BPEMerges
from regard.data.tokenizers.tokenizer import UNKNOWN

MAX_LENGTH = 16  # characters of a piece, as in SentencePiece
WORDS_AT_ONCE = 10_000

Counts = dict[str, int]
Scores = dict[str, float]  # log P


class Spec(LearnedSpec):
    """tokenizer: {kind: unigram, vocabulary: 8000}"""

    def learn(
        self, backend: Backend, lines: Iterable[str], initial: Sequence[str], size: int
    ) -> models.Model:
        merges = BPEMerges(backend, lines, size, MAX_LENGTH)
        words = merges.words()
        candidates = merges.first(2 * size)[0]
        counts = count_uses(log_probs(count_occurrences(candidates, words)), words)
        while len(counts) > size:
            kept = prune(counts, max(size, len(counts) * 3 // 4))
            counts = count_uses(log_probs(kept), words)
        vocabulary = [*((piece, 0.0) for piece in initial), *log_probs(counts).items()]
        return models.Unigram(vocabulary, initial.index(UNKNOWN), byte_fallback=True)


def count_occurrences(pieces: Iterable[str], words: Mapping[str, int]) -> Counts:
    """Count how often each piece occurs in the words, overlaps included."""
    counts = dict.fromkeys(pieces, 0)
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(start + MAX_LENGTH, len(word)) + 1):
                if (piece := word[start:end]) in counts:
                    counts[piece] += count
    return counts


def count_uses(scores: Scores, words: Mapping[str, int]) -> Counts:
    """Count how often each piece is used in the best segmentation of every word.

    Unused pieces are left out, except characters, without which some words have no segmentation.
    """
    pieces = [UNKNOWN, *scores]
    backend = Backend(models.Unigram([(UNKNOWN, 0.0), *scores.items()], 0))
    counts = [0] * len(pieces)
    for batch in _batches(words):
        segmentations = backend.encode_batch_fast(batch, add_special_tokens=False)
        for word, segmentation in zip(batch, segmentations, strict=True):
            for piece in segmentation.ids:
                counts[piece] += words[word]
    counted = list(zip(pieces, counts, strict=True))[1:]
    return {piece: count for piece, count in counted if count or len(piece) == 1}


def log_probs(counts: Counts) -> Scores:
    """Return log P of each piece; an unused character counts half a use and stays possible."""
    total = math.log(sum(counts.values()) or 1)
    return {piece: math.log(count or 0.5) - total for piece, count in counts.items()}


def prune(counts: Counts, number: int) -> Counts:
    """Keep the `number` pieces whose removal would cost most likelihood, and all characters."""
    scores = log_probs(counts)

    def loss(piece: str) -> float:
        if len(piece) == 1:
            return math.inf
        return counts[piece] * (scores[piece] - best_split(piece, scores))

    ranked = sorted(counts, key=lambda piece: (-loss(piece), piece))
    kept = set(ranked[:number])
    return {piece: count for piece, count in counts.items() if piece in kept}


def best_split(piece: str, scores: Scores) -> float:
    """Return log P of the best segmentation of a piece into other pieces."""
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
