"""A translator: text in one language to text in another.

One model serves every direction it was trained for; a tag before the source says which language to
produce. Text that the model cannot take is refused with its line, before anything is translated.
"""

from collections.abc import Callable, Sequence

import torch

from regard.data.batching import pad
from regard.data.corpus import Direction
from regard.data.languages import LanguageGuess
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import beam as beam_search
from regard.decoding.greedy import greedy
from regard.errors import DataError
from regard.models.encoder_decoder import EncoderDecoder

BATCH_TOKENS = 4096


class Translator:
    """What `regard.load` gives for a translation run."""

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        guess: LanguageGuess,
        max_length: int,
        ways: Sequence[Direction],
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.guess = guess
        self.max_length = max_length
        self.ways = tuple(ways)

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that it can produce."""
        return tuple(dict.fromkeys(way.target for way in self.ways))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def translate(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        beam: int = 1,
    ) -> list[str]:
        """As many lines out as in; a blank line stays blank.

        Without `to`, a line goes to the one language that the model knows for it. `on_progress`
        hears how many lines were done each time some are. `beam` is how many beginnings are
        followed at a time: 1 is greedy; 5 is slower and usually better.
        """
        sources = [
            self.source_ids(line, to or self.other_language(line), f"line {number}")
            if line.strip()
            else []
            for number, line in enumerate(lines, start=1)
        ]
        translated = [""] * len(lines)
        order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda i: len(sources[i]))
        for rows in _by_tokens(order, sources, beam):
            for row, ids in zip(rows, self.say([sources[row] for row in rows], beam), strict=True):
                translated[row] = self.tokenizer.decode(ids)
            if on_progress is not None:
                on_progress(len(rows))
        return translated

    def other_language(self, text: str) -> str:
        """The language to go to from this text, where there is just one."""
        if len(self.languages) == 1:
            return self.languages[0]
        own = self.guess.of(self.tokenizer.encode(text))
        others = [way.target for way in self.ways if way.source == own]
        if len(others) != 1:
            raise DataError(f"say which language to produce, one of: {', '.join(self.languages)}.")
        return others[0]

    def source_ids(self, text: str, to: str, where: str) -> list[int]:
        """The tag, if any, the text and the end as ids; refuses what this model cannot take."""
        if not text.strip():
            raise DataError(f"{where}: there is no text to translate.")
        if to not in self.languages:
            raise DataError(f"this model cannot produce '{to}', only: {', '.join(self.languages)}.")
        tag = [self.tokenizer.language(to)] if len(self.languages) > 1 else []
        ids = [*tag, *self.tokenizer.encode(text), self.tokenizer.end]
        if len(ids) > self.max_length:
            raise DataError(
                f"{where}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.max_length}: split it into sentences, one a line."
            )
        return ids

    def say(self, sources: Sequence[Sequence[int]], beam: int = 1) -> list[list[int]]:
        """The target ids of each source, without start and end."""
        ids, real = (tensor.to(self.device) for tensor in pad(sources, self.tokenizer.pad))
        with torch.inference_mode():
            state = self.model.start(ids, real)
            first = torch.full((len(sources),), self.tokenizer.start, device=self.device)
            limits = [min(2 * len(source) + 10, self.max_length - 1) for source in sources]
            if beam == 1:
                return greedy(self.model, state, first, self.tokenizer.end, limits)
            best = beam_search(self.model, state, first, self.tokenizer.end, limits, width=beam)
            return [hypotheses[0].ids for hypotheses in best]


def _by_tokens(
    order: Sequence[int], sources: Sequence[Sequence[int]], beam: int
) -> list[list[int]]:
    """Rows of like length together, BATCH_TOKENS padded tokens a batch at most over all beams."""
    groups: list[list[int]] = []
    for row in order:
        if not groups or len(sources[row]) * (len(groups[-1]) + 1) * beam > BATCH_TOKENS:
            groups.append([])
        groups[-1].append(row)
    return groups
