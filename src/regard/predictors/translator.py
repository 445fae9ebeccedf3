"""A translator: text in one language to text in another.

One model serves every direction it was trained for; a tag before the source says which language to
produce. Text that is too long for the model is cut where a reader would pause and put together
again; nothing is left out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from regard.data.config import Direction
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig
from regard.decoding.scoring import Score
from regard.engine.select import Decodable
from regard.errors import ConfigError, DataError
from regard.predictors.placeholders import kept_parts
from regard.predictors.segment import cut
from regard.predictors.seq2seq import Ids, Model, Request, Seq2SeqRunner


@dataclass(frozen=True)
class Translation:
    text: str
    score: float  # log p / length^α; not a number where greedy decoding did without
    parts: tuple[tuple[str, str], ...] = ()  # source and translation of what was taken at once


@dataclass(frozen=True)
class _Piece:
    """A part of a line that the model takes at once."""

    line: int
    text: str
    gap: str  # between its translation and the next piece's
    question: Request


class Translator:
    """What `regard.load` gives for a translation run."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        guess: LanguageIdentifier,
        max_length: int,
        ways: Sequence[Direction],
        bits: int = 32,
        never: Sequence[int] = (),
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.guess = guess
        self.max_length = max_length
        self.ways = tuple(ways)
        self.never = [[each] for each in never]  # pieces that it was not trained not to say
        self.answering = Seq2SeqRunner(model, tokenizer, max_length, bits, self.never)

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that it can produce."""
        return tuple(dict.fromkeys(way.target for way in self.ways))

    @property
    def decodable(self) -> Decodable:
        return self.answering.decodable

    @property
    def device(self) -> torch.device:
        return self.answering.device

    @property
    def longest(self) -> int:
        """Tokens of a source, at most: where both are one sequence, as much is left to say."""
        return self.max_length // 2 if self.model.single_sequence else self.max_length

    def translate(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        beam: int = 1,
        search: DecodingConfig | None = None,
        force: Sequence[str] = (),
        prefix: str = "",
        keep: bool = False,
        tokens: int | None = None,
    ) -> list[str]:
        """As many lines out as in; a blank line stays blank.

        Without `to`, a line goes to the one language that the model knows for it. `on_progress`
        hears how many lines were done each time some are. `beam` is how many beginnings are
        followed at a time: 1 is greedy; 5 is slower and usually better; `search` says more. Each
        line's translation begins with `prefix` and has the phrases of `force` in it; `keep` forces
        numbers, links and variables of the source. It has at most `tokens` tokens: unless given,
        twice as many as the source and ten.
        """
        found = self.candidates(
            lines, to, on_progress, search or DecodingConfig(beam=beam), force, prefix, keep, tokens
        )
        return [candidates[0].text for candidates in found]

    def candidates(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        search: DecodingConfig | None = None,
        force: Sequence[str] = (),
        prefix: str = "",
        keep: bool = False,
        tokens: int | None = None,
    ) -> list[list[Translation]]:
        """The best translations of each line, best first: `search.n_best` at most."""
        search = search or DecodingConfig()
        if tokens is not None and tokens < 1:
            raise ConfigError(f"a translation of {tokens} tokens is none: give 1 or more.")
        pieces = self._pieces(lines, to, force, keep, tokens)
        if (keep or force) and search.beam == 1:
            search = replace(search, beam=5)  # forced words need room to find their place
        begun = self.tokenizer.encode(prefix) if prefix else []

        def done(which: Sequence[int]) -> None:
            if on_progress is not None:
                on_progress(sum(not pieces[i].gap for i in which))

        found = self.answering.find([piece.question for piece in pieces], search, begun, done)
        return self._joined(len(lines), pieces, found)

    def stream(self, text: str, to: str | None = None) -> Iterator[str]:
        """A line's translation as it grows, by greedy decoding."""
        for piece in self._pieces([text], to, (), False):
            yield from self.answering.stream(piece.question)
            if piece.gap:
                yield piece.gap

    def score(
        self, sources: Sequence[str], targets: Sequence[str], to: str | None = None
    ) -> list[Score]:
        """How likely the model finds given translations."""
        if len(sources) != len(targets):
            raise DataError(
                f"there are {len(sources):,} sources and {len(targets):,} translations: "
                f"give one translation for each."
            )
        asked = [
            self.source_ids(source, to or self.other_language(source), f"line {number}")
            for number, source in enumerate(sources, start=1)
        ]
        said = [self.target_ids(line, f"line {n}") for n, line in enumerate(targets, start=1)]
        return self.answering.score(asked, said)

    def target_ids(self, text: str, where: str) -> Ids:
        ids = self.tokenizer.encode(text)
        # Where both are one sequence, a source may take half of it.
        most = self.max_length - 1 - (self.longest if self.model.single_sequence else 0)
        if len(ids) > most:
            raise DataError(
                f"{where}: the translation has {len(ids):,} tokens and this model says at most "
                f"{most}: split it into sentences, one a line."
            )
        return ids

    def other_language(self, text: str) -> str:
        """The language to go to from this text, where there is just one."""
        if len(self.languages) == 1:
            return self.languages[0]
        own = self.guess.of(self.tokenizer.encode(text))
        others = [way.target for way in self.ways if way.source == own]
        if len(others) != 1:
            raise DataError(f"say which language to produce, one of: {', '.join(self.languages)}.")
        return others[0]

    def source_ids(self, text: str, to: str, where: str) -> Ids:
        """The tag, if any, the text and the end as ids; refuses what this model cannot take."""
        if not text.strip():
            raise DataError(f"{where}: there is no text to translate.")
        ids = self._ids(text, to)
        if len(ids) > self.longest:
            raise DataError(
                f"{where}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.longest}: split it into sentences, one a line."
            )
        return ids

    def say(self, sources: Sequence[Ids], beam: int = 1) -> list[Ids]:
        """The target ids of each source, without start and end."""
        asked = [Request(source, _most(source)) for source in sources]
        found = self.answering.find(asked, DecodingConfig(beam=beam), [])
        return [hypotheses[0].ids for hypotheses in found]

    def _ids(self, text: str, to: str) -> Ids:
        if to not in self.languages:
            raise DataError(f"this model cannot produce '{to}', only: {', '.join(self.languages)}.")
        tag = [self.tokenizer.special_id(to)] if len(self.languages) > 1 else []
        return [*tag, *self.tokenizer.encode(text), self.tokenizer.end]

    def _pieces(
        self,
        lines: Sequence[str],
        to: str | None,
        force: Sequence[str],
        keep: bool,
        tokens: int | None = None,
    ) -> list[_Piece]:
        """All lines in parts that the model takes; blank ones have none."""
        phrases = tuple(self.tokenizer.encode(phrase) for phrase in force)
        pieces = []
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            ids = partial(self._ids, to=to or self.other_language(line))
            for place, part in enumerate(cut(line, partial(self._fits, ids))):
                kept = kept_parts(part.text) if keep else []
                forced = (*map(self.tokenizer.encode, kept), *(phrases if place == 0 else ()))
                source = ids(part.text)
                question = Request(source, tokens or _most(source), forced)
                pieces.append(_Piece(number, part.text, part.gap, question))
        return pieces

    def _fits(self, ids: Callable[[str], Ids], text: str) -> bool:
        return len(ids(text)) <= self.longest

    def _joined(
        self,
        count: int,
        pieces: Sequence[_Piece],
        found: Sequence[list[Hypothesis]],
    ) -> list[list[Translation]]:
        """The pieces of each line put together: their best with their best, and so on."""
        lines: list[list[int]] = [[] for _ in range(count)]
        for number, piece in enumerate(pieces):
            lines[piece.line].append(number)
        joined = []
        for own in lines:
            if not own:
                joined.append([Translation("", 0.0)])
                continue
            ranks = max(len(found[number]) for number in own)
            joined.append([self._ranked(own, pieces, found, rank) for rank in range(ranks)])
        return joined

    def _ranked(
        self,
        own: Sequence[int],
        pieces: Sequence[_Piece],
        found: Sequence[list[Hypothesis]],
        rank: int,
    ) -> Translation:
        chosen = [found[number][min(rank, len(found[number]) - 1)] for number in own]
        said = [self.tokenizer.decode(each.ids) for each in chosen]
        text = "".join(part + pieces[number].gap for part, number in zip(said, own, strict=True))
        words = [len(each.ids) + 1 for each in chosen]
        total = sum(each.score * size for each, size in zip(chosen, words, strict=True))
        parts = tuple((pieces[n].text, part) for n, part in zip(own, said, strict=True))
        return Translation(text, total / sum(words), parts)


def _most(source: Ids) -> int:
    """How many tokens a translation may have, unless said."""
    return 2 * len(source) + 10
