"""Requests and answers of the OpenAI protocol, as its clients send and read them.

A parameter that is not supported has the type of the values that change nothing.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from regard.serving.tasks.base import MAX_TEXTS
from regard.serving.tasks.generate import MAX_CHOICES, MAX_STOP_CHARACTERS, MAX_TOP

MAX_MESSAGES = 4096
MAX_STOP = 4  # strings
MAX_ID = 1 << 31


def _or(message: str) -> WrapValidator:
    """Return a validator that describes every other value in one sentence."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("value", "{message}", {"message": message}) from None

    return WrapValidator(validate)


Id = Annotated[int, Field(strict=True, ge=0, lt=MAX_ID)]
Ids = Annotated[list[Id], Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]
Input = Annotated[
    str | Texts | Ids | Annotated[list[Ids], Field(min_length=1, max_length=MAX_TEXTS)],
    _or("it must be a text, a list of texts, a list of token ids or a list of such lists"),
]
StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]
Stop = Annotated[
    StopString | Annotated[list[StopString], Field(max_length=MAX_STOP)],
    _or(f"it must be a text that is not empty, or a list of at most {MAX_STOP} of them"),
]
Temperature = Annotated[float, Field(strict=True, ge=0, le=2)]
Probability = Annotated[float, Field(strict=True, ge=0, le=1)]
Penalty = Annotated[float, Field(strict=True, ge=-2, le=2)]
Seed = Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 63)]
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_CHOICES)]
Empty = Annotated[list[Any], Field(max_length=0)]

NoSuffix = Annotated[Literal[""], _or("not supported: text is generated after a prompt only")]
NoBias = Annotated[
    Annotated[dict[str, float], Field(max_length=0)],
    _or("not supported: the logits of tokens cannot be changed one by one"),
]
NoTools = Annotated[Empty, _or("not supported: the models of this server call no tools")]
NoToolChoice = Annotated[Literal["none", "auto"], _or("not supported: there are no tools")]
TextOnly = Annotated[list[Literal["text"]], _or("not supported: answers are text only")]


class StreamOptions(BaseModel, extra="forbid"):
    """Options of a streamed answer."""

    include_usage: StrictBool | None = None
    include_obfuscation: StrictBool | None = None  # never done


class ResponseFormat(BaseModel, extra="forbid"):
    """The format of an answer."""

    type: Literal["text"]


TextFormat = Annotated[ResponseFormat, _or("not supported: answers have the format text only")]


class GenerationRequest(BaseModel, extra="forbid"):
    """Parameters that requests for text have in common."""

    model: str
    frequency_penalty: Penalty | None = None
    logit_bias: NoBias | None = None
    n: Count | None = None
    presence_penalty: Penalty | None = None
    seed: Seed | None = None
    stop: Stop | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    user: str | None = None  # not used

    # Further than OpenAI's.
    top_k: Annotated[int, Field(strict=True, ge=0)] | None = None
    repetition_penalty: Annotated[float, Field(strict=True, ge=1, le=1000)] | None = None

    @property
    def includes_usage(self) -> bool:
        """True if the last event of a streamed answer counts the tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)


class CompletionRequest(GenerationRequest):
    """A request to continue prompts."""

    prompt: Input | None = None
    best_of: Count | None = None
    echo: StrictBool | None = None
    logprobs: Annotated[int, Field(strict=True, ge=0, le=5)] | None = None
    max_tokens: Annotated[int, Field(strict=True, ge=0)] | None = None
    suffix: NoSuffix | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """All prompts; an empty one if there is none."""
        return listed(self.prompt or "")


class TextPart(BaseModel, extra="forbid"):
    """A part of a message."""

    type: Literal["text"]
    text: str


Content = Annotated[str | list[TextPart], _or("it must be a text, or a list of parts of type text")]
Role = Annotated[
    Literal["system", "developer", "user", "assistant"],
    _or("it must be system, developer, user or assistant"),
]


class ChatMessage(BaseModel, extra="forbid"):
    """A message of a chat. Fields after `name` are those of an answer that is sent back."""

    role: Role
    content: Content | None = None
    name: str | None = None  # not used
    refusal: None = None
    annotations: Empty | None = None
    audio: None = None
    function_call: None = None
    tool_calls: NoTools | None = None

    @property
    def plain_role(self) -> Literal["system", "user", "assistant"]:
        """The role, by its older name."""
        return "system" if self.role == "developer" else self.role

    @property
    def text(self) -> str:
        """The text of all parts."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class ChatRequest(GenerationRequest):
    """A request to answer a chat."""

    model: str = ""  # clients of servers with one model may name none
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[int, Field(strict=True, ge=0, le=MAX_TOP)] | None = None
    max_tokens: Annotated[int, Field(strict=True, ge=-1)] | None = None  # −1: no limit
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    response_format: TextFormat | None = None
    modalities: TextOnly | None = None
    tools: NoTools | None = None
    functions: NoTools | None = None
    tool_choice: NoToolChoice | None = None
    function_call: NoToolChoice | None = None

    # Not used.
    metadata: dict[str, str] | None = None
    parallel_tool_calls: StrictBool | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: StrictBool | None = None

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens of the answer; None for as many as fit the context."""
        limit = self.max_completion_tokens
        limit = self.max_tokens if limit is None else limit
        return None if limit == -1 else limit

    @property
    def num_top_logprobs(self) -> int | None:
        """Number of the most likely tokens in each place; None without log-probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None


NoDimensions = Annotated[None, _or("not supported: vectors have the dimensions of the model")]


class EmbeddingRequest(BaseModel, extra="forbid"):
    """A request for the vectors of texts."""

    model: str
    input: Input
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: NoDimensions = None
    user: str | None = None  # not used


class Model(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "regard"


class ServedModels(BaseModel):
    """All served models."""

    object: Literal["list"] = "list"
    data: list[Model]


class Usage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionLogprobs(BaseModel):
    """Tokens of a text, their places in prompt and text, and their log-probabilities."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """A continuation, or the next part of one."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None


class Completion(BaseModel):
    """Continuations, or the next part of one."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class TopLogprob(BaseModel):
    """A token and its log-probability."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatLogprob(TopLogprob):
    """A token of an answer, and the most likely ones in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Tokens of an answer, with their log-probabilities."""

    content: list[ChatLogprob]
    refusal: None = None


class AnswerMessage(BaseModel):
    """The message of an answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """An answer to a chat."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length"]


class ChatCompletion(BaseModel):
    """Answers to a chat."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class EmbeddingUsage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """The vector of a text, as numbers or as the base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingList(BaseModel):
    """The vectors of texts, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class ErrorDetails(BaseModel):
    """The description of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The answer to a request that failed."""

    error: ErrorDetails


def listed(value: Any) -> list[str | list[int]]:
    """Return an input as a list of texts or of lists of ids."""
    is_one = isinstance(value, str) or isinstance(value[0], int)
    return [value] if is_one else value
