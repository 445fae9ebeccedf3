"""Learning of byte-pair merges (Sennrich, Haddow and Birch 2016), used by bpe and unigram.

The most frequent pair of adjacent pieces becomes a piece, again and again, starting from
characters. Twice as many merges are learned as needed. Where there are too many characters, as in
Chinese, the rarest are left to byte fallback and their merges are left out, so that a quarter of
the vocabulary remains for merges.
"""

import json
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer as Backend
from tokenizers import trainers

Pair = tuple[str, str]


class BPEMerges:
    """Merges and word counts learned in one pass over the lines."""

    def __init__(
        self, backend: Backend, lines: Iterable[str], size: int, max_length: int | None = None
    ) -> None:
        """Learn from lines that `backend` cuts into words; pieces have at most `max_length`
        characters."""
        # The library could limit the alphabet too, but drops equally rare characters at random.
        self._trainer = trainers.BpeTrainer(
            vocab_size=2 * size, max_token_length=max_length, show_progress=False
        )
        backend.train_from_iterator(lines, self._trainer)
        learned = json.loads(backend.to_str())["model"]
        self._pairs: list[Pair] = learned["merges"]
        self._characters = [piece for piece in learned["vocab"] if len(piece) == 1]
        if len(self._characters) > size:
            self._characters = self._most_frequent(size * 3 // 4)

    def words(self) -> dict[str, int]:
        """Return the words of the text and how often each occurs."""
        # The counts of a trainer are only in its state, which is JSON.
        words: dict[str, int] = json.loads(self._trainer.__getstate__())["BpeTrainer"]["words"]
        return words

    def first(self, number: int) -> tuple[list[str], list[Pair]]:
        """Return at most `number` pieces, characters first, and the merges that form them."""
        pieces, merges = dict.fromkeys(self._characters), []
        for left, right in self._pairs:
            if len(pieces) == number:
                break
            if left in pieces and right in pieces:
                pieces[left + right] = None
                merges.append((left, right))
        return list(pieces), merges

    def _most_frequent(self, number: int) -> list[str]:
        counts: Counter[str] = Counter()
        for word, count in self.words().items():
            for character in word:
                counts[character] += count
        return sorted(counts, key=lambda character: (-counts[character], character))[:number]
