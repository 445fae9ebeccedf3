"""A translator: text in one language to text in another.

One model serves every direction it was trained for; a tag before the source says which language to
produce. Text that the model cannot take is refused with its line, before anything is translated.
"""

from collections.abc import Callable, Sequence

import torch

from regard.data.batching import pad
from regard.data.languages import LanguageGuess
from regard.data.tokenizer import Tokenizer
from regard.decoding.greedy import greedy
from regard.errors import DataError
from regard.models.encoder_decoder import EncoderDecoder

BATCH_TOKENS = 4096


class Translator:
    """What `regard.load` gives for a translation run."""

    def __init__(
        self, model: EncoderDecoder, tokenizer: Tokenizer, guess: LanguageGuess, max_length: int
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.guess = guess
        self.max_length = max_length

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.guess.counts)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def translate(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        strict: bool = True,
    ) -> list[str]:
        """As many lines out as in; a blank line stays blank.

        Without `to`, a line goes to the other of the model's two languages. `on_progress` hears
        how many lines were done each time some are. Unless `strict`, a character never seen in
        training is passed to the model as unknown instead of being an error.
        """
        sources = [
            self.source_ids(line, to or self.other_language(line), f"line {number}", strict)
            if line.strip()
            else []
            for number, line in enumerate(lines, start=1)
        ]
        translated = [""] * len(lines)
        order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda i: len(sources[i]))
        for rows in _by_tokens(order, sources):
            for row, ids in zip(rows, self.say([sources[row] for row in rows]), strict=True):
                translated[row] = self.tokenizer.decode(ids)
            if on_progress is not None:
                on_progress(len(rows))
        return translated

    def other_language(self, text: str) -> str:
        """The language to go to from this text, where the model knows just two."""
        own = self.guess.of(self.tokenizer.encode(text))
        others = [language for language in self.languages if language != own]
        if len(others) != 1:
            raise DataError(f"say which language to produce, one of: {', '.join(self.languages)}.")
        return others[0]

    def source_ids(self, text: str, to: str, where: str, strict: bool = True) -> list[int]:
        """The tag, the text and the end as ids; refuses what this model cannot take."""
        if not text.strip():
            raise DataError(f"{where}: there is no text to translate.")
        if to not in self.languages:
            raise DataError(f"this model cannot produce '{to}', only: {', '.join(self.languages)}.")
        unseen = self.tokenizer.unseen(text) if strict else []
        if unseen:
            named = ", ".join(f"'{char}' (U+{ord(char):04X})" for char in unseen[:5])
            raise DataError(
                f"{where}: this model has never seen {named}; remove or replace "
                f"{'it' if len(unseen) == 1 else 'them'}, or train on text that has "
                f"{'it' if len(unseen) == 1 else 'them'}."
            )
        ids = [self.tokenizer.language(to), *self.tokenizer.encode(text), self.tokenizer.end]
        if len(ids) > self.max_length:
            raise DataError(
                f"{where}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.max_length}: split it into sentences, one a line."
            )
        return ids

    def say(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """The target ids of each source, without start and end."""
        ids, real = (tensor.to(self.device) for tensor in pad(sources, self.tokenizer.pad))
        with torch.inference_mode():
            state = self.model.start(ids, real)
            first = torch.full((len(sources),), self.tokenizer.start, device=self.device)
            limits = [min(2 * len(source) + 10, self.max_length - 1) for source in sources]
            return greedy(self.model, state, first, self.tokenizer.end, limits)


def _by_tokens(order: Sequence[int], sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows of like length together, BATCH_TOKENS padded tokens a batch at most."""
    groups: list[list[int]] = []
    for row in order:
        if not groups or len(sources[row]) * (len(groups[-1]) + 1) > BATCH_TOKENS:
            groups.append([])
        groups[-1].append(row)
    return groups
