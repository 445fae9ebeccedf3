"""Continue prompts with a language model: greedily, by sampling or by beam search."""

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

from pydantic import BaseModel, Field

from regard.serving.continuation import Continuation, FinishReason, Token
from regard.serving.errors import BadRequest
from regard.serving.tasks.base import MAX_BEAM, MAX_TEXTS, TaskContext

if TYPE_CHECKING:
    from regard.decoding.config import DecodingConfig
    from regard.decoding.logits_processors import LogitsProcessor
    from regard.decoding.sampling import Sampling
    from regard.predictors.generator import TextGenerator
    from regard.predictors.scored_tokens import ScoredToken

T = TypeVar("T")

PREDICTORS = ("TextGenerator",)
LEAST_TEMPERATURE = 1e-6  # below it, the most likely token is chosen
SEEDS = 1 << 64
MAX_CHOICES = 128  # of a prompt
MAX_STOP = 16  # strings
MAX_STOP_CHARACTERS = 1000
MAX_TOP = 20  # tokens in each place
MAX_THREADS = 16  # of a request with several prompts


class Settings(BaseModel, extra="forbid"):
    """Settings of the generation of a text."""

    max_tokens: int | None = Field(None, ge=0)  # None: as many as fit the context
    temperature: float | None = Field(None, ge=0, le=1e6)  # None or 0: greedy decoding
    top_p: float = Field(1.0, ge=0, le=1)
    top_k: int = Field(0, ge=0)  # 0: all
    seed: int | None = None  # None: another one for each request
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    stop: list[Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]] = Field(
        [], max_length=MAX_STOP
    )
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP)  # most likely tokens in each place
    repetition_penalty: float = Field(1.0, ge=1, le=1000)
    presence_penalty: float = Field(0.0, ge=-100, le=100)
    frequency_penalty: float = Field(0.0, ge=-100, le=100)
    stream: bool = False

    @property
    def is_greedy(self) -> bool:
        """True if the most likely token is chosen at every step."""
        return (self.temperature or 0) < LEAST_TEMPERATURE or self.top_p == 0


class Arguments(Settings):
    """Prompts, as texts or as ids, and the settings of their continuations."""

    prompts: list[str | Annotated[list[int], Field(min_length=1)]] = Field(
        min_length=1, max_length=MAX_TEXTS
    )
    max_tokens: int | None = Field(16, ge=0)
    # Continuations of which the n most likely are returned.
    best_of: int | None = Field(None, ge=1, le=MAX_CHOICES)
    beam: int = Field(1, ge=1, le=MAX_BEAM)
    echo: bool = False  # the text begins with the prompt


class Choice(BaseModel):
    """A continuation of a prompt."""

    prompt: int  # its number
    index: int  # number of the continuation, among those of all prompts
    text: str
    finish_reason: FinishReason
    ids: list[int]
    tokens: list[Token] | None = None  # with log-probabilities, where they are asked for


class Result(BaseModel):
    """Continuations of all prompts, and the number of tokens that were computed."""

    choices: list[Choice]
    prompt_tokens: int
    completion_tokens: int


def run(
    predictor: "TextGenerator", arguments: Arguments, context: TaskContext, param: str = "prompt"
) -> Result:
    """Continue the prompts.

    With `stream`, events are {"choice": index, "text": …, "tokens": …}; the last one of a choice
    has a "finish_reason".

    Args:
        predictor: A language model.
        arguments: Prompts and settings.
        context: The request.
        param: Name of the prompts in the request, for errors.
    """
    _check_combination(arguments)
    prompts = [_prompt(predictor, prompt) for prompt in arguments.prompts]
    limits = _limits(prompts, predictor.max_length, arguments, context, param)
    generations = [
        _Generation(predictor, arguments, context, number, prompt, limit)
        for number, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
    ]
    choices = _in_threads([generation.run for generation in generations])
    return Result(
        choices=[choice for own in choices for choice in own],
        prompt_tokens=sum(len(prompt.ids) for prompt in prompts),
        completion_tokens=sum(generation.num_tokens for generation in generations),
    )


def _in_threads(functions: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions in threads; the model computes their decoding steps together."""
    if len(functions) == 1:
        return [functions[0]()]
    with ThreadPoolExecutor(min(len(functions), MAX_THREADS)) as pool:
        futures = [pool.submit(copy_context().run, function) for function in functions]
        return [future.result() for future in futures]


class _Prompt(NamedTuple):
    ids: list[int]
    text: str
    is_text: bool  # and not given as ids


def _prompt(generator: "TextGenerator", prompt: str | list[int]) -> _Prompt:
    if isinstance(prompt, str):
        return _Prompt(generator.prompt_ids(prompt), prompt, is_text=True)
    import numpy as np

    from regard.engine.checks import check_ids

    check_ids(np.array(prompt), len(generator.tokenizer))
    return _Prompt(prompt, generator.tokenizer.decode(prompt), is_text=False)


def _check_combination(arguments: Arguments) -> None:
    """Refuse settings that exclude each other."""
    best_of = arguments.best_of or arguments.n
    if best_of < arguments.n:
        raise BadRequest(f"best_of is {best_of}; it must be at least n, {arguments.n}.", "best_of")
    if best_of > arguments.n and arguments.stream:
        raise BadRequest(
            "best_of and stream exclude each other: the best is known when all have ended.",
            "best_of",
        )
    if arguments.beam == 1:
        return
    if best_of > arguments.n:
        raise BadRequest("best_of and beam exclude each other: choose one.", "best_of")
    if arguments.presence_penalty or arguments.frequency_penalty:
        raise BadRequest(
            "beam search has no presence_penalty and no frequency_penalty: leave them out.",
            "presence_penalty",
        )


def _limits(
    prompts: Sequence[_Prompt],
    max_length: int,
    arguments: Arguments,
    context: TaskContext,
    param: str,
) -> list[int]:
    """Return the maximum number of new tokens of each prompt; refuse what does not fit."""
    rows = arguments.best_of or arguments.n
    if arguments.max_tokens is not None:
        context.check_tokens(arguments.max_tokens * rows * len(prompts))
    most = max(1, context.max_tokens // (rows * len(prompts)))
    limits = []
    for prompt in prompts:
        room = max_length - len(prompt.ids)
        needed = 1 if arguments.max_tokens is None else arguments.max_tokens
        if room < needed:
            raise BadRequest(
                f"this model's context is {max_length:,} tokens, and {len(prompt.ids):,} tokens of "
                f"the prompt with {needed:,} to generate are {len(prompt.ids) + needed:,}: shorten "
                f"the prompt, or ask for fewer.",
                param,
                code="context_length_exceeded",
            )
        limits.append(min(room, most) if arguments.max_tokens is None else needed)
    return limits


class _Generation:
    """Continuations of one prompt.

    Args:
        generator: A language model.
        arguments: Settings.
        context: The request.
        number: Number of the prompt.
        prompt: The prompt.
        limit: Maximum number of new tokens of each continuation.
    """

    def __init__(
        self,
        generator: "TextGenerator",
        arguments: Arguments,
        context: TaskContext,
        number: int,
        prompt: _Prompt,
        limit: int,
    ) -> None:
        self._generator, self._arguments, self._context = generator, arguments, context
        self._number, self._prompt, self._limit = number, prompt, limit
        self._first = number * arguments.n  # index of the first choice
        self._sampling = _sampling(arguments)
        self.num_tokens = 0  # of all continuations, those that `best_of` drops included

    def run(self) -> list[Choice]:
        """Return the n best continuations."""
        continuations = self._continuations()
        self.num_tokens = sum(len(continuation.ids) for continuation in continuations)
        for index, continuation in enumerate(continuations):
            continuation.end()
            self._emit(index, continuation, finish_reason=continuation.finish_reason)
        if self._is_ranked:
            continuations.sort(key=lambda continuation: -continuation.mean_log_prob)
        return [
            Choice(
                prompt=self._number,
                index=self._first + index,
                text=continuation.text,
                finish_reason=continuation.finish_reason,
                ids=continuation.ids,
                tokens=None if self._arguments.logprobs is None else continuation.tokens,
            )
            for index, continuation in enumerate(continuations[: self._arguments.n])
        ]

    def _continuations(self) -> list[Continuation]:
        arguments = self._arguments
        if self._limit == 0:
            return [self._new() for _ in range(arguments.n)]
        counts = arguments.presence_penalty or arguments.frequency_penalty
        is_plain = arguments.is_greedy and not (arguments.stream or arguments.stop or counts)
        if arguments.beam > 1 or (is_plain and arguments.logprobs is None):
            return self._search()
        return self._stream()

    def _search(self) -> list[Continuation]:
        """Generate whole continuations: nobody needs a token before the last."""
        (hypotheses,) = self._generator.search([self._prompt.ids], self._limit, self._decoding)
        if self._arguments.beam == 1:
            hypotheses = hypotheses * self._arguments.n
        continuations = []
        for hypothesis in hypotheses:
            continuation = self._new()
            for token in self._scored(hypothesis.ids):
                if not continuation.is_stopped:
                    continuation.add(token)
            continuations.append(continuation)
        return continuations

    def _scored(self, ids: list[int]) -> "list[ScoredToken]":
        from regard.predictors.scored_tokens import ScoredToken

        prompt, top = self._prompt.ids, self._arguments.logprobs
        if top is None:
            return [ScoredToken(token) for token in ids]
        return self._generator.score_tokens([*prompt, *ids], top)[len(prompt) - 1 :]

    def _stream(self) -> list[Continuation]:
        """Generate the continuations together, token by token."""
        rows = self._arguments.best_of or self._arguments.n
        continuations = [self._new() for _ in range(rows)]
        for row, continuation in enumerate(continuations):
            self._emit(row, continuation)
        top = self._arguments.logprobs
        stopped: set[int] = set()
        steps = self._generator.stream_rows(
            self._prompt.ids,
            self._limit,
            self._sampling,
            rows,
            0 if top is None and self._is_ranked else top,
            self._processors,
            stopped,
        )
        with closing(steps):
            for step in steps:
                self._context.check()
                for row, token in step:
                    continuations[row].add(token)
                    if continuations[row].is_stopped:
                        stopped.add(row)
                    self._emit(row, continuations[row])
                if len(stopped) == rows:
                    break
        return continuations

    def _new(self) -> Continuation:
        """Return an empty continuation, after the prompt if it is echoed."""
        arguments, prompt = self._arguments, self._prompt
        continuation = Continuation(
            self._generator.tokenizer,
            prompt.ids,
            len(prompt.text),
            self._limit,
            arguments.stop,
            arguments.logprobs is not None,
        )
        if arguments.echo:
            continuation.begin_with(prompt.text, self._prompt_tokens)
        return continuation

    @cached_property
    def _prompt_tokens(self) -> list[Token]:
        """Tokens of the prompt, where they are asked for; the first has no probability."""
        from regard.predictors.scored_tokens import ScoredToken

        if self._arguments.logprobs is None:
            return []
        ids = self._prompt.ids
        prompt = Continuation(self._generator.tokenizer)
        prompt.add(ScoredToken(ids[0]))
        for scored in self._generator.score_tokens(ids, self._arguments.logprobs):
            prompt.add(scored)
        prompt.end()
        if self._prompt.is_text:  # whose white space may not be that of the tokens
            spans = self._generator.tokenizer.spans(self._prompt.text)
            before = [0] * (len(ids) - len(spans))
            for token, offset in zip(prompt.tokens, [*before, *(s[1] for s in spans)], strict=True):
                token.offset = offset
        return prompt.tokens

    @property
    def _is_ranked(self) -> bool:
        """True if the most likely of several continuations are returned."""
        return (self._arguments.best_of or 0) > self._arguments.n

    @property
    def _decoding(self) -> "DecodingConfig":
        from regard.decoding.config import DecodingConfig

        arguments = self._arguments
        return DecodingConfig(
            beam=arguments.beam,
            n_best=arguments.n if arguments.beam > 1 else 1,
            sampling=self._sampling,
            repetition_penalty=arguments.repetition_penalty,
        )

    @property
    def _processors(self) -> "list[LogitsProcessor]":
        from regard.serving.count_penalty import CountPenalty

        presence, frequency = self._arguments.presence_penalty, self._arguments.frequency_penalty
        processors = self._decoding.processors()
        if presence or frequency:
            processors.append(CountPenalty(presence, frequency, len(self._prompt.ids)))
        return processors

    def _emit(self, index: int, continuation: Continuation, **end: str) -> None:
        """Send what is new of a continuation, and its end."""
        if not self._arguments.stream:
            return
        text, tokens = continuation.take()
        if text or tokens or end:
            plain = [token.model_dump() for token in tokens]
            event = {"choice": self._first + index, "text": text, "tokens": plain}
            self._context.emit(event | end)


def _sampling(arguments: Arguments) -> "Sampling | None":
    from regard.decoding.sampling import Sampling

    if arguments.is_greedy:
        return None
    assert arguments.temperature is not None
    seed = secrets.randbelow(SEEDS) if arguments.seed is None else arguments.seed % SEEDS
    return Sampling(arguments.temperature, arguments.top_k, arguments.top_p, seed=seed)
