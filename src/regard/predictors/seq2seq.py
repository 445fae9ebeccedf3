"""Batched decoding of sequence-to-sequence models: source ids in, target ids out.

Shared by the translator and the summarizer, which convert between texts and ids.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from regard.data.batches.padding import pad_rows
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import Constraints, DecodingConfig, decode
from regard.decoding.greedy import stream_tokens
from regard.decoding.lexical_constraints import require_fit
from regard.decoding.logits_processors import SuppressPhrases
from regard.decoding.scoring import Score, score
from regard.engine.numerics import Ids as IdArray
from regard.engine.select import EngineModel
from regard.engine.steppers import FastModel
from regard.engine.stored_model import StoredModel
from regard.errors import ConfigError
from regard.hardware import num_threads
from regard.predictors.base import BasePredictor
from regard.predictors.parallel import map_threads
from regard.predictors.stream_text import incremental_decode

if TYPE_CHECKING:
    from regard.models.decoder_only import DecoderOnly
    from regard.models.encoder_decoder import EncoderDecoder

MAX_SOURCE_TOKENS = 1024  # of a batch: its states fit the second-level cache
MAX_BATCH_TOKENS = 4096  # source tokens times beams: weights are read once for many rows
MIN_BATCH_TOKENS = 256
SCORING_ROWS = 32

Ids = list[int]
Model = Union["EncoderDecoder", "DecoderOnly"]


@dataclass(frozen=True)
class Request:
    """A source, the maximum number of target tokens, and what the target must contain."""

    source: Ids
    max_tokens: int  # those of prefix and phrases included
    phrases: tuple[Ids, ...] = ()
    prefix: tuple[int, ...] = ()
    name: str = "the text"  # in error messages
    options: str = "--prefix"  # that the prefix and the phrases come from, in error messages
    whole_words: bool = False  # a phrase must not be the beginning of a longer word


class Seq2SeqRunner(BasePredictor[Model]):
    """Decode, stream and score with a sequence-to-sequence model.

    Args:
        model: An encoder-decoder, or a decoder-only model of source and target in one sequence.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of a source or target.
        bits: 32, or 8 or 4 for integer weights.
        suppressed: Phrases, as ids, that the model must not generate.
    """

    def __init__(
        self,
        model: Model | StoredModel,
        tokenizer: Tokenizer,
        max_length: int,
        bits: int,
        suppressed: Sequence[Ids],
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.suppressed = suppressed
        self.single_sequence = model.single_sequence
        self.engine_model = EngineModel(self._model, max_length, bits)

    def max_output(self, source: Ids) -> int:
        """Maximum number of target tokens for a source."""
        return self.max_length - 1 - (len(source) if self.single_sequence else 0)

    def required_ids(self, text: str, option: str) -> Ids:
        """Return the ids of a text that a target must contain; refuse one it could not contain."""
        ids = self.tokenizer.encode(text)
        if not ids:
            raise ConfigError(f"{option} {text!r}: there is no text in it.")
        if self.tokenizer.unknown in ids:
            raise ConfigError(
                f"{option} {text!r}: this model cannot generate all of its characters."
            )
        return ids

    def limit(self, request: Request) -> int:
        """Maximum number of target tokens of a request."""
        return min(request.max_tokens, self.max_output(request.source))

    def decode(
        self,
        requests: Sequence[Request],
        decoding: DecodingConfig,
        on_done: Callable[[Sequence[int]], None] = lambda _: None,
    ) -> list[list[Hypothesis]]:
        """Return the best targets of each request, at least one, each text once.

        `on_done` is called with the indices of the requests of each finished batch. A request whose
        required text does not fit is refused before any is decoded.
        """
        for request in requests:
            self._check(request, decoding)
        model = self.engine_model.current
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i].source))
        batches = _by_tokens(order, requests, decoding.beam)

        def decode_batch(batch: Sequence[int]) -> list[list[Hypothesis]]:
            return self._decode(model, [requests[i] for i in batch], batch, decoding)

        results: dict[int, list[Hypothesis]] = {}
        decoded: Iterator[tuple[int, list[list[Hypothesis]]]]
        if isinstance(model, FastModel):
            decoded = map_threads(decode_batch, batches)
        else:  # torch uses all threads itself
            decoded = enumerate(map(decode_batch, batches))
        for number, hypotheses in decoded:
            results.update(zip(batches[number], hypotheses, strict=True))
            on_done(batches[number])
        return [results[number] for number in range(len(requests))]

    def stream(self, request: Request) -> Iterator[str]:
        """Yield the target's text as it is generated, by greedy decoding."""
        model = self.engine_model.current
        state, first = self._start(model, [request])
        limits, end = [self.limit(request)], self.tokenizer.end
        processors = [SuppressPhrases(self.suppressed)] if self.suppressed else []
        steps = stream_tokens(model, state, first, end, limits, processors=processors)
        yield from incremental_decode((step[0][1] for step in steps), self.tokenizer.decode)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Score]:
        """Return the log-likelihood of each target given its source."""
        model, scores = self.engine_model.current, []
        # In a single sequence, a long target would not fit after another row's long source.
        rows = 1 if self.single_sequence else SCORING_ROWS
        for start in range(0, len(sources), rows):
            requests = [Request(source, 1) for source in sources[start : start + rows]]
            state, first = self._start(model, requests)
            scores += score(model, state, first, self.tokenizer.end, targets[start : start + rows])
        return scores

    def _check(self, request: Request, decoding: DecodingConfig) -> None:
        """Refuse required text that does not fit the limit, or has a suppressed phrase in it."""
        if not request.prefix and not request.phrases:
            return
        limit = self.limit(request)
        more = ", or raise --max-tokens" if limit == request.max_tokens else ""
        advice = f"shorten it ({request.options}){more}"
        require_fit(limit, request.prefix, request.phrases, request.name, advice)
        for required in (request.prefix, *request.phrases):
            for phrase in decoding.suppress_phrases:
                starts = range(len(required) - len(phrase) + 1)
                if any([*required[i : i + len(phrase)]] == [*phrase] for i in starts):
                    raise ConfigError(
                        f"{request.name}: the text {self.tokenizer.decode(phrase)!r} is both "
                        f"suppressed (--suppress-phrase) and part of a required text "
                        f"({request.options}): leave out one of the two."
                    )

    def _start(self, model: Any, requests: Sequence[Request]) -> tuple[Any, IdArray]:
        """Encode the sources; return the state and the start tokens."""
        sources = [request.source for request in requests]
        state = model.start(*pad_rows(sources, self.tokenizer.pad))
        return state, np.full(len(sources), self.tokenizer.start)

    def _decode(
        self,
        model: Any,
        requests: Sequence[Request],
        sample_ids: Sequence[int],
        decoding: DecodingConfig,
    ) -> list[list[Hypothesis]]:
        state, first = self._start(model, requests)
        constraints = Constraints(
            {row: request.prefix for row, request in enumerate(requests) if request.prefix},
            {row: request.phrases for row, request in enumerate(requests) if request.phrases},
            {
                row: self.tokenizer.word_continuations
                for row, request in enumerate(requests)
                if request.phrases and request.whole_words
            },
        )
        if self.suppressed:
            suppressed = [*decoding.suppress_phrases, *self.suppressed]
            decoding = replace(decoding, suppress_phrases=suppressed)
        return decode(
            model,
            state,
            first,
            self.tokenizer.end,
            [self.limit(request) for request in requests],
            decoding,
            constraints,
            sample_ids,
            distinct=self.tokenizer.decode,
        )


def _by_tokens(order: Sequence[int], requests: Sequence[Request], beam: int) -> list[list[int]]:
    """Batch rows of similar length; two batches for each thread where there are enough tokens."""
    total = sum(len(request.source) for request in requests) * beam
    per_thread = total // (2 * num_threads())
    most = min(MAX_SOURCE_TOKENS * beam, MAX_BATCH_TOKENS, max(MIN_BATCH_TOKENS, per_thread))
    batches: list[list[int]] = []
    for row in order:
        longest = len(requests[batches[-1][0]].source) if batches else 0
        if not batches or longest * (len(batches[-1]) + 1) * beam > most:
            batches.append([])
        batches[-1].append(row)
    return batches
