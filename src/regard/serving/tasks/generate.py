"""Continue prompts with a language model: greedily, by sampling or by beam search."""

import math
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field

from regard.serving.errors import BadRequest
from regard.serving.tasks.base import MAX_BEAM, MAX_TEXTS, TaskContext

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
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
NEAR = 4  # ids before a token on which its text depends
PART_OF_CHARACTER = "\ufffd"


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


class Token(BaseModel):
    """A token of a text, with its log-probability.

    The text of a token that is a part of a character is �; that of a special token is its name.
    """

    id: int
    text: str
    log_prob: float | None  # None for the first token of a prompt
    offset: int  # of its first character in prompt and continuation
    top: list[tuple[str, float]] = []


class Choice(BaseModel):
    """A continuation of a prompt."""

    prompt: int  # its number
    index: int  # number of the continuation, among those of all prompts
    text: str
    finish_reason: Literal["stop", "length"]
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
    generation = _Generation(predictor, arguments, context)
    continuations = _in_threads(generation.continuations, range(len(prompts)), prompts, limits)
    return Result(
        choices=[
            choice
            for number, (prompt, own) in enumerate(zip(prompts, continuations, strict=True))
            for choice in generation.choices(number, prompt, own)
        ],
        prompt_tokens=sum(len(prompt.ids) for prompt in prompts),
        completion_tokens=sum(len(one.ids) for own in continuations for one in own),
    )


def _in_threads(function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """Map a function over arguments in threads; the model computes their steps together."""
    calls = list(zip(*arguments, strict=True))
    if len(calls) == 1:
        return [function(*calls[0])]
    with ThreadPoolExecutor(min(len(calls), MAX_THREADS)) as pool:
        return [
            future.result()
            for future in [pool.submit(copy_context().run, function, *call) for call in calls]
        ]


class _Prompt(NamedTuple):
    ids: list[int]
    text: str


def _prompt(generator: "TextGenerator", prompt: str | list[int]) -> _Prompt:
    if isinstance(prompt, str):
        return _Prompt(generator.prompt_ids(prompt), prompt)
    import numpy as np

    from regard.engine.checks import check_ids

    check_ids(np.array(prompt), len(generator.tokenizer))
    return _Prompt(prompt, generator.tokenizer.decode(prompt))


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
    """Continuations of the prompts of one request."""

    def __init__(
        self, generator: "TextGenerator", arguments: Arguments, context: TaskContext
    ) -> None:
        self._generator, self._arguments, self._context = generator, arguments, context
        self._sampling = _sampling(arguments)

    def continuations(self, number: int, prompt: _Prompt, limit: int) -> "list[_Continuation]":
        """Return the continuations of a prompt, those that `best_of` drops included."""
        first = number * self._arguments.n
        self._emit_echo(first, prompt)
        if limit == 0:
            continuations = [self._new(prompt, limit) for _ in range(self._arguments.n)]
        elif self._decodes_whole:
            continuations = self._search(prompt, limit)
        else:
            continuations = self._stream(first, prompt, limit)
        for index, continuation in enumerate(continuations, start=first):
            continuation.end()
            self._emit(index, continuation, continuation.finish_reason)
        return continuations

    def choices(
        self, number: int, prompt: _Prompt, continuations: "list[_Continuation]"
    ) -> list[Choice]:
        """Return the n best continuations."""
        arguments = self._arguments
        if len(continuations) > arguments.n:
            continuations = sorted(continuations, key=lambda own: -own.mean_log_prob)
        echo = prompt.text if arguments.echo else ""
        echo_tokens = self._echo_tokens(prompt)
        return [
            Choice(
                prompt=number,
                index=index,
                text=echo + continuation.text,
                finish_reason=continuation.finish_reason,
                ids=continuation.ids,
                tokens=(
                    None if arguments.logprobs is None else [*echo_tokens, *continuation.tokens]
                ),
            )
            for index, continuation in enumerate(
                continuations[: arguments.n], start=number * arguments.n
            )
        ]

    @property
    def _decodes_whole(self) -> bool:
        """True if nobody needs the tokens before the text ends: the engine runs the search."""
        arguments = self._arguments
        return arguments.beam > 1 or (
            arguments.is_greedy
            and not arguments.stream
            and not arguments.stop
            and arguments.logprobs is None
            and not (arguments.presence_penalty or arguments.frequency_penalty)
        )

    def _search(self, prompt: _Prompt, limit: int) -> "list[_Continuation]":
        arguments = self._arguments
        (hypotheses,) = self._generator.search([prompt.ids], limit, self._decoding)
        if arguments.beam == 1:
            hypotheses = hypotheses * arguments.n
        continuations = []
        for hypothesis in hypotheses:
            continuation = self._new(prompt, limit)
            for token in self._scored(prompt, hypothesis.ids):
                if not continuation.is_stopped:
                    continuation.add(token)
            continuations.append(continuation)
        return continuations

    def _scored(self, prompt: _Prompt, ids: list[int]) -> "list[ScoredToken]":
        from regard.predictors.scored_tokens import ScoredToken

        top = self._arguments.logprobs
        if top is None:
            return [ScoredToken(token) for token in ids]
        return self._generator.score_tokens([*prompt.ids, *ids], top)[len(prompt.ids) - 1 :]

    def _stream(self, first: int, prompt: _Prompt, limit: int) -> "list[_Continuation]":
        """Generate the continuations together, token by token."""
        arguments = self._arguments
        rows = arguments.best_of or arguments.n
        ranked = rows > arguments.n
        continuations = [self._new(prompt, limit) for _ in range(rows)]
        stopped: set[int] = set()
        steps = self._generator.stream_rows(
            prompt.ids,
            limit,
            self._sampling,
            rows,
            (arguments.logprobs or 0) if ranked else arguments.logprobs,
            self._processors(len(prompt.ids)),
            stopped,
        )
        with closing(steps):
            for step in steps:
                self._context.check()
                for row, token in step:
                    continuations[row].add(token)
                    if continuations[row].is_stopped:
                        stopped.add(row)
                    self._emit(first + row, continuations[row])
                if len(stopped) == rows:
                    break
        return continuations

    def _new(self, prompt: _Prompt, limit: int) -> "_Continuation":
        arguments = self._arguments
        return _Continuation(
            self._generator.tokenizer,
            prompt.ids,
            len(prompt.text),
            limit,
            arguments.stop,
            arguments.logprobs is not None,
        )

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

    def _processors(self, prompt: int) -> "list[LogitsProcessor]":
        from regard.serving.count_penalty import CountPenalty

        arguments = self._arguments
        processors = self._decoding.processors()
        if arguments.presence_penalty or arguments.frequency_penalty:
            processors.append(
                CountPenalty(arguments.presence_penalty, arguments.frequency_penalty, prompt)
            )
        return processors

    def _echo_tokens(self, prompt: _Prompt) -> list[Token]:
        """Return the tokens of a prompt where they are asked for; the first has no probability."""
        from regard.predictors.scored_tokens import ScoredToken

        arguments = self._arguments
        if not arguments.echo or arguments.logprobs is None:
            return []
        echo = _Continuation(self._generator.tokenizer, [], 0, len(prompt.ids), (), True)
        echo.add(ScoredToken(prompt.ids[0]))
        for token in self._generator.score_tokens(prompt.ids, arguments.logprobs):
            echo.add(token)
        echo.end()
        return echo.tokens

    def _emit_echo(self, first: int, prompt: _Prompt) -> None:
        arguments = self._arguments
        if arguments.stream and arguments.echo:
            tokens = [token.model_dump() for token in self._echo_tokens(prompt)]
            for index in range(first, first + arguments.n):
                self._context.emit({"choice": index, "text": prompt.text, "tokens": tokens})

    def _emit(
        self, index: int, continuation: "_Continuation", finish_reason: str | None = None
    ) -> None:
        if not self._arguments.stream:
            return
        text, tokens = continuation.take()
        if text or tokens or finish_reason:
            event: dict[str, Any] = {
                "choice": index,
                "text": text,
                "tokens": [token.model_dump() for token in tokens],
            }
            self._context.emit(event | ({"finish_reason": finish_reason} if finish_reason else {}))


def _sampling(arguments: Arguments) -> "Sampling | None":
    from regard.decoding.sampling import Sampling

    if arguments.is_greedy:
        return None
    assert arguments.temperature is not None
    seed = secrets.randbelow(SEEDS) if arguments.seed is None else arguments.seed % SEEDS
    return Sampling(arguments.temperature, arguments.top_k, arguments.top_p, seed=seed)


class _Continuation:
    """The text of ids after others, with their tokens, up to a stop string.

    Args:
        tokenizer: The tokenizer of the model.
        context: Ids before the first.
        start: Number of characters before the first.
        limit: Maximum number of ids.
        stop: Stop strings.
        describes: Describe the tokens.
    """

    def __init__(
        self,
        tokenizer: "Tokenizer",
        context: Sequence[int],
        start: int,
        limit: int,
        stop: Sequence[str],
        describes: bool,
    ) -> None:
        from regard.predictors.stop_strings import StopStrings
        from regard.predictors.stream_text import IncrementalDecoder

        self._tokenizer, self._context, self._limit = tokenizer, list(context[-NEAR:]), limit
        self._decoder = IncrementalDecoder(tokenizer.decode_after(context))
        self._stops = StopStrings(stop)
        self._start, self._decoded = start, 0  # characters before the text, and of it
        self._describes = describes
        self._pending: list[Token] = []  # tokens whose text is held back
        self._log_prob = 0.0
        self._taken = (0, 0)  # characters and tokens
        self.ids: list[int] = []
        self.text = ""
        self.tokens: list[Token] = []

    @property
    def is_stopped(self) -> bool:
        """True if a stop string has ended the text."""
        return self._stops.reached

    @property
    def finish_reason(self) -> Literal["stop", "length"]:
        return "stop" if self.is_stopped or len(self.ids) < self._limit else "length"

    @property
    def mean_log_prob(self) -> float:
        return self._log_prob / len(self.ids) if self.ids else 0.0

    def add(self, token: "ScoredToken") -> None:
        """Append a token."""
        piece = self._decoder.push(token.id)
        if self._describes:
            self._pending.append(self._described(token, len(piece)))
        self._decoded += len(piece)
        self.ids.append(token.id)
        self._log_prob += token.log_prob
        self._release(self._stops.push(piece))

    def end(self) -> None:
        """Release what was held back: no token follows."""
        if not self.is_stopped:
            self._release(self._stops.push(self._decoder.flush()) + self._stops.flush())
        if not self.is_stopped:
            self.tokens += self._pending
        self._pending = []

    def take(self) -> tuple[str, list[Token]]:
        """Return the text and the tokens that were not taken before."""
        characters, tokens = self._taken
        self._taken = len(self.text), len(self.tokens)
        return self.text[characters:], self.tokens[tokens:]

    def _release(self, text: str) -> None:
        self.text += text
        end = self._start + len(self.text)
        released = [token for token in self._pending if token.offset < end]
        self.tokens += released
        self._pending = self._pending[len(released) :]

    def _described(self, token: "ScoredToken", added: int) -> Token:
        """Return a token with its text and its place.

        Args:
            token: The next token.
            added: Number of characters that it added to the text, those held back before included.
        """
        decode = self._tokenizer.decode_after([*self._context, *self.ids[-NEAR:]])
        own = decode([token.id])
        if self._decoder.holds_back:
            before = added
        else:
            before = 0 if PART_OF_CHARACTER in own else max(added - len(own), 0)

        def text_of(id_: int) -> str:
            return decode([id_]) or self._tokenizer.pieces([id_])[0]

        return Token(
            id=token.id,
            text=text_of(token.id),
            log_prob=None if math.isnan(token.log_prob) else token.log_prob,
            offset=self._start + self._decoded + before,
            top=[(text_of(id_), log_prob) for id_, log_prob in token.top],
        )
