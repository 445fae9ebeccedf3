"""Whole words, the most frequent ones. Any other word is spelt, mostly in bytes."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers

from regard.data.tokenizers.assembly import spelling
from regard.data.tokenizers.base import LearnedSpec


class Spec(LearnedSpec):
    """tokenizer: {kind: word, vocabulary: 8000}"""

    def learn(
        self, backend: Backend, lines: Iterable[str], first: Sequence[str], room: int
    ) -> models.Model:
        backend.model = models.WordLevel()
        trainer = trainers.WordLevelTrainer(vocab_size=room, show_progress=False)
        backend.train_from_iterator(lines, trainer)
        words = backend.get_vocab()
        return spelling([*first, *sorted(words, key=words.__getitem__)], whole_words=True)
