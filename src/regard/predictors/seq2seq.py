"""From what is read to what is said: sources as ids to answers as ids, many at a time.

The machinery of everything that reads one text and writes another. What a text is, and what is made
of the answer, is the affair of whoever asks: a translator, a summarizer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.data.batches.base import pad
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import Constraints, DecodingConfig, decode
from regard.decoding.greedy import stream_tokens
from regard.decoding.scoring import Score, score
from regard.engine.select import Decodable
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.parallel import spread
from regard.predictors.stream_text import growing

BATCH_TOKENS = 4096  # of sources, over all beams, at most: weights are read once for many rows
FEW_TOKENS = 256
SCORED = 32  # rows that are scored together

Ids = list[int]
Model = EncoderDecoder | DecoderOnly


@dataclass(frozen=True)
class Request:
    """What is read, how much may be said of it at most, and phrases that must be."""

    source: Ids
    tokens: int
    forced: tuple[Ids, ...] = ()


class Seq2SeqRunner:
    def __init__(
        self, model: Model, tokenizer: Tokenizer, max_length: int, bits: int, never: Sequence[Ids]
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.never = never  # pieces that it was not trained not to say
        self.decodable = Decodable(self.model, max_length, bits)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def room(self, source: Ids) -> int:
        """How many tokens can be said of a source."""
        return self.max_length - 1 - (len(source) if self.model.single_sequence else 0)

    def find(
        self,
        questions: Sequence[Request],
        search: DecodingConfig,
        begun: Ids,
        on_done: Callable[[Sequence[int]], None] = lambda _: None,
    ) -> list[list[Hypothesis]]:
        """The best answers to each, which begin with `begun`; `on_done` hears which are found."""
        model = self.decodable.now
        order = sorted(range(len(questions)), key=lambda i: -len(questions[i].source))
        groups = _by_tokens(order, questions, search.beam)

        def work(group: Sequence[int]) -> list[list[Hypothesis]]:
            return self._find(model, [questions[i] for i in group], group, search, begun)

        found: dict[int, list[Hypothesis]] = {}
        if model is self.model:
            answers: Iterator[tuple[int, list[list[Hypothesis]]]] = enumerate(map(work, groups))
        else:
            answers = spread(work, groups)
        for number, hypotheses in answers:
            found.update(zip(groups[number], hypotheses, strict=True))
            on_done(groups[number])
        return [found[number] for number in range(len(questions))]

    def stream(self, question: Request) -> Iterator[str]:
        """One answer as it grows, by greedy decoding."""
        model = self.decodable.now
        state, first, limits = self._start(model, [question])
        words = stream_tokens(model, state, first, self.tokenizer.end, limits)
        yield from growing((step[0][1] for step in words), self.tokenizer.decode)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Score]:
        """How likely the model finds given answers."""
        model, scores = self.decodable.now, []
        # Where both are one sequence, a long answer beside a long source would be past its end.
        rows = 1 if self.model.single_sequence else SCORED
        for start in range(0, len(sources), rows):
            asked = [Request(source, 1) for source in sources[start : start + rows]]
            state, first, _ = self._start(model, asked)
            scores += score(model, state, first, self.tokenizer.end, targets[start : start + rows])
        return scores

    def _start(
        self, model: Any, questions: Sequence[Request]
    ) -> tuple[Any, torch.Tensor, list[int]]:
        sources = [each.source for each in questions]
        ids, source_mask = (tensor.to(self.device) for tensor in pad(sources, self.tokenizer.pad))
        with torch.inference_mode():
            state = model.start(ids, source_mask)
        first = torch.full((len(sources),), self.tokenizer.start, device=self.device)
        limits = [
            min(each.tokens + sum(map(len, each.forced)), self.room(each.source))
            for each in questions
        ]
        return state, first, limits

    def _find(
        self,
        model: Any,
        questions: Sequence[Request],
        numbers: Sequence[int],
        search: DecodingConfig,
        begun: Ids,
    ) -> list[list[Hypothesis]]:
        state, first, limits = self._start(model, questions)
        forced: Mapping[int, tuple[Ids, ...]] = {
            row: each.forced for row, each in enumerate(questions) if each.forced
        }
        wishes = Constraints(dict.fromkeys(range(len(questions)), begun) if begun else {}, forced)
        if self.never:
            search = replace(search, suppress_phrases=[*search.suppress_phrases, *self.never])
        end = self.tokenizer.end
        return decode(model, state, first, end, limits, search, wishes, numbers)


def _by_tokens(order: Sequence[int], asked: Sequence[Request], beam: int) -> list[list[int]]:
    """Rows of like length together; two batches for each thread, where there is so much to do."""
    total = sum(len(each.source) for each in asked) * beam
    room = min(BATCH_TOKENS, max(FEW_TOKENS, total // (2 * torch.get_num_threads())))
    groups: list[list[int]] = []
    for row in order:
        longest = len(asked[groups[-1][0]].source) if groups else 0
        if not groups or longest * (len(groups[-1]) + 1) * beam > room:
            groups.append([])
        groups[-1].append(row)
    return groups
