"""A translator: text in one language to text in another.

One model serves every direction it was trained for; a tag before the source says which language to
produce. Text that is too long for the model is cut where a reader would pause and put together
again; nothing is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from regard.data.batching import pad
from regard.data.corpus import Direction
from regard.data.languages import LanguageGuess
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.pieces import cut
from regard.decoding.placeholders import kept_parts
from regard.decoding.scoring import Score, score
from regard.decoding.search import Search, Wishes, find
from regard.decoding.spelling import growing
from regard.decoding.stream import stream
from regard.decoding.workers import spread
from regard.engine.choice import Decodable
from regard.errors import ConfigError, DataError
from regard.models.encoder_decoder import EncoderDecoder

BATCH_TOKENS = 4096  # of sources, over all beams, at most: weights are read once for many rows
FEW_TOKENS = 256

Ids = list[int]


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
    source: Ids
    forced: tuple[Ids, ...] = ()


class Translator:
    """What `regard.load` gives for a translation run."""

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        guess: LanguageGuess,
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
        self.decodable = Decodable(self.model, max_length, bits)

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
        search: Search | None = None,
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
            lines, to, on_progress, search or Search(beam=beam), force, prefix, keep, tokens
        )
        return [candidates[0].text for candidates in found]

    def candidates(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        search: Search | None = None,
        force: Sequence[str] = (),
        prefix: str = "",
        keep: bool = False,
        tokens: int | None = None,
    ) -> list[list[Translation]]:
        """The best translations of each line, best first: `search.n_best` at most."""
        search = search or Search()
        if tokens is not None and tokens < 1:
            raise ConfigError(f"a translation of {tokens} tokens is none: give 1 or more.")
        pieces = self._pieces(lines, to, force, keep)
        if (keep or force) and search.beam == 1:
            search = replace(search, beam=5)  # forced words need room to find their place
        model = self.decodable.now
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i].source), reverse=True)
        groups = _by_tokens(order, pieces, search.beam)
        begun = self.tokenizer.encode(prefix) if prefix else []

        def work(group: Sequence[int]) -> list[list[Hypothesis]]:
            return self._find(model, [pieces[i] for i in group], group, search, begun, tokens)

        found: dict[int, list[Hypothesis]] = {}
        if model is self.model:
            answers: Iterator[tuple[int, list[list[Hypothesis]]]] = enumerate(map(work, groups))
        else:
            answers = spread(work, groups)
        for number, hypotheses in answers:
            found.update(zip(groups[number], hypotheses, strict=True))
            if on_progress is not None:
                on_progress(sum(not pieces[i].gap for i in groups[number]))
        return self._joined(len(lines), pieces, found)

    def stream(self, text: str, to: str | None = None) -> Iterator[str]:
        """A line's translation as it grows, by greedy decoding."""
        model = self.decodable.now
        for piece in self._pieces([text], to, (), False):
            state, first, limits = self._start(model, [piece.source])
            words = stream(model, state, first, self.tokenizer.end, limits)
            yield from growing((step[0][1] for step in words), self.tokenizer.decode)
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
        model, scores = self.decodable.now, []
        for start in range(0, len(asked), 32):
            state, first, _ = self._start(model, asked[start : start + 32])
            scores += score(model, state, first, self.tokenizer.end, said[start : start + 32])
        return scores

    def target_ids(self, text: str, where: str) -> Ids:
        ids = self.tokenizer.encode(text)
        if len(ids) >= self.max_length:
            raise DataError(
                f"{where}: the translation has {len(ids):,} tokens and this model says at most "
                f"{self.max_length - 1}: split it into sentences, one a line."
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
        if len(ids) > self.max_length:
            raise DataError(
                f"{where}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.max_length}: split it into sentences, one a line."
            )
        return ids

    def say(self, sources: Sequence[Ids], beam: int = 1) -> list[Ids]:
        """The target ids of each source, without start and end."""
        model = self.decodable.now
        pieces = [_Piece(line, "", "", source) for line, source in enumerate(sources)]
        found = self._find(model, pieces, range(len(pieces)), Search(beam=beam), [])
        return [hypotheses[0].ids for hypotheses in found]

    def _ids(self, text: str, to: str) -> Ids:
        if to not in self.languages:
            raise DataError(f"this model cannot produce '{to}', only: {', '.join(self.languages)}.")
        tag = [self.tokenizer.mark(to)] if len(self.languages) > 1 else []
        return [*tag, *self.tokenizer.encode(text), self.tokenizer.end]

    def _pieces(
        self, lines: Sequence[str], to: str | None, force: Sequence[str], keep: bool
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
                pieces.append(_Piece(number, part.text, part.gap, ids(part.text), forced))
        return pieces

    def _fits(self, ids: Callable[[str], Ids], text: str) -> bool:
        return len(ids(text)) <= self.max_length

    def _start(
        self, model: Any, sources: Sequence[Ids], tokens: int | None = None
    ) -> tuple[Any, torch.Tensor, list[int]]:
        ids, real = (tensor.to(self.device) for tensor in pad(sources, self.tokenizer.pad))
        with torch.inference_mode():
            state = model.start(ids, real)
        first = torch.full((len(sources),), self.tokenizer.start, device=self.device)
        room = self.max_length - 1
        limits = [min(tokens or 2 * len(source) + 10, room) for source in sources]
        return state, first, limits

    def _find(
        self,
        model: Any,
        pieces: Sequence[_Piece],
        numbers: Sequence[int],
        search: Search,
        begun: Ids,
        tokens: int | None = None,
    ) -> list[list[Hypothesis]]:
        state, first, limits = self._start(model, [piece.source for piece in pieces], tokens)
        forced: Mapping[int, tuple[Ids, ...]] = {
            row: piece.forced for row, piece in enumerate(pieces) if piece.forced
        }
        for row, phrases in forced.items():
            limits[row] = min(limits[row] + sum(map(len, phrases)), self.max_length - 1)
        wishes = Wishes(dict.fromkeys(range(len(pieces)), begun) if begun else {}, forced)
        if self.never:
            search = replace(search, forbid=[*search.forbid, *self.never])
        end = self.tokenizer.end
        return find(model, state, first, end, limits, search, wishes, numbers)

    def _joined(
        self,
        count: int,
        pieces: Sequence[_Piece],
        found: Mapping[int, list[Hypothesis]],
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
        found: Mapping[int, list[Hypothesis]],
        rank: int,
    ) -> Translation:
        chosen = [found[number][min(rank, len(found[number]) - 1)] for number in own]
        said = [self.tokenizer.decode(each.ids) for each in chosen]
        text = "".join(part + pieces[number].gap for part, number in zip(said, own, strict=True))
        words = [len(each.ids) + 1 for each in chosen]
        total = sum(each.score * size for each, size in zip(chosen, words, strict=True))
        parts = tuple((pieces[n].text, part) for n, part in zip(own, said, strict=True))
        return Translation(text, total / sum(words), parts)


def _by_tokens(order: Sequence[int], pieces: Sequence[_Piece], beam: int) -> list[list[int]]:
    """Rows of like length together; two batches for each thread, where there is so much to do."""
    total = sum(len(piece.source) for piece in pieces) * beam
    room = min(BATCH_TOKENS, max(FEW_TOKENS, total // (2 * torch.get_num_threads())))
    groups: list[list[int]] = []
    for row in order:
        longest = len(pieces[groups[-1][0]].source) if groups else 0
        if not groups or longest * (len(groups[-1]) + 1) * beam > room:
            groups.append([])
        groups[-1].append(row)
    return groups
