"""Whole words, the most frequent ones; any other word is spelled, mostly in bytes."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers

from regard.data.tokenizers.base import LearnedSpec
from regard.data.tokenizers.pipeline import byte_fallback_bpe


class Spec(LearnedSpec):
    """tokenizer: {kind: word, vocabulary: 8000}"""

    def learn(
        self, backend: Backend, lines: Iterable[str], initial: Sequence[str], size: int
    ) -> models.Model:
        backend.model = models.WordLevel()
        trainer = trainers.WordLevelTrainer(vocab_size=size, show_progress=False)
        backend.train_from_iterator(lines, trainer)
        words = backend.get_vocab()
        pieces = [*initial, *sorted(words, key=words.__getitem__)]
        return byte_fallback_bpe(pieces, whole_words=True)
