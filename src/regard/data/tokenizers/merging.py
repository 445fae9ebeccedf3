"""Byte-pair merging (Sennrich, Haddow and Birch 2016), with which two kinds begin: the commonest
pair of neighbours becomes a piece, again and again, beginning with characters.

More is learned than there is room for. Where there are too many characters, as in Chinese, the
rarest are left to be spelt in bytes and their merges left out; a quarter of the room is for merges.
"""

import json
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer as Backend
from tokenizers import trainers

Pair = tuple[str, str]


class Merging:
    """What one pass over the lines has taught."""

    def __init__(
        self, backend: Backend, lines: Iterable[str], room: int, longest: int | None = None
    ) -> None:
        # The library could limit the alphabet too, but drops equally rare characters at random.
        self._trainer = trainers.BpeTrainer(
            vocab_size=2 * room, max_token_length=longest, show_progress=False
        )
        backend.train_from_iterator(lines, self._trainer)
        learned = json.loads(backend.to_str())["model"]
        self._pairs: list[Pair] = learned["merges"]
        self._characters = [piece for piece in learned["vocab"] if len(piece) == 1]
        if len(self._characters) > room:
            self._characters = self._commonest(room * 3 // 4)

    def words(self) -> dict[str, int]:
        """The words of the text and how often each occurs."""
        # There is no other way to what a trainer has counted than its state, which is JSON.
        words: dict[str, int] = json.loads(self._trainer.__getstate__())["BpeTrainer"]["words"]
        return words

    def first(self, number: int) -> tuple[list[str], list[Pair]]:
        """That many pieces at most, characters before others, and the merges that make them."""
        pieces, merges = dict.fromkeys(self._characters), []
        for left, right in self._pairs:
            if len(pieces) == number:
                break
            if left in pieces and right in pieces:
                pieces[left + right] = None
                merges.append((left, right))
        return list(pieces), merges

    def _commonest(self, number: int) -> list[str]:
        counts: Counter[str] = Counter()
        for word, count in self.words().items():
            for character in word:
                counts[character] += count
        return sorted(counts, key=lambda character: (-counts[character], character))[:number]
