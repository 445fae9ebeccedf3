"""The protocol of OpenAI: models, completions, chats and embeddings, streamed or not.

A chat may name a model that is not served, as clients with a fixed name do, if the server has one
model that can chat; every other request names one of `/v1/models`.
"""

import json
import secrets
import sys
import time
from array import array
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from regard.serving.api._openai_types import (
    ChatCompletion,
    ChatRequest,
    Completion,
    CompletionRequest,
    EmbeddingList,
    EmbeddingRequest,
    ErrorAnswer,
    GenerationRequest,
    Model,
    ServedModels,
    listed,
)
from regard.serving.errors import BadRequest, NotFound, ServingError
from regard.serving.models import ModelInfo, Models
from regard.serving.settings import ServerSettings
from regard.serving.tasks import chat, embed, generate

PREFIXES = ("/v1/",)
STATUSES = {422: 400}  # by the statuses of ServingError
DEFAULT_MAX_TOKENS = 16  # of a completion
DEFAULT_TEMPERATURE = 1.0
LEAST_LOG_PROB = -9999.0  # JSON has no −∞
PART_OF_CHARACTER = "\ufffd"

ERROR_TYPES = {429: "requests"}  # others are of two types, by who is at fault
ERROR_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "The request is refused."},
    "5XX": {"model": ErrorAnswer, "description": "The request failed."},
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Json = dict[str, Any]


def error_body(error: ServingError) -> Json:
    """Return the JSON of an error."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    is_model = isinstance(error, NotFound) and error.param == "model"
    code = "model_not_found" if is_model else ERROR_CODES.get(error.status)
    return {
        "error": {
            "message": error.message,
            "type": ERROR_TYPES.get(error.status, kind),
            "param": error.param,
            "code": error.code or code,
        }
    }


def router(models: Models, _settings: ServerSettings) -> APIRouter:
    """Return the routes of the protocol."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"], responses=ERRORS)

    @routes.get("/models", response_model=ServedModels)
    async def list_models() -> Response:
        """Return the served models."""
        return _answer({"object": "list", "data": [_model(info) for info in models.list()]})

    @routes.get("/models/{model}", response_model=Model)
    async def get_model(model: str) -> Response:
        """Return one of the served models."""
        return _answer(_model(models.get(model)))

    @routes.post("/completions", response_model=Completion, responses=STREAMED)
    async def complete(request: CompletionRequest) -> Response:
        """Continue one or more prompts."""
        name = models.get(request.model).name
        arguments = generate.Arguments(
            prompts=request.prompts,
            max_tokens=DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens,
            best_of=request.best_of,
            echo=bool(request.echo),
            logprobs=request.logprobs,
            **_common_settings(request),
        )
        return await _generate(models, name, "generate", arguments, request, Completions(name))

    @routes.post("/chat/completions", response_model=ChatCompletion, responses=STREAMED)
    async def answer_chat(request: ChatRequest) -> Response:
        """Answer a chat."""
        name = _chat_model(models, request.model).name
        if request.top_logprobs is not None and not request.logprobs:
            raise BadRequest("top_logprobs: only an answer with logprobs has them.", "top_logprobs")
        arguments = chat.Arguments(
            messages=[
                chat.Message(role=message.plain_role, content=message.text)
                for message in request.messages
            ],
            max_tokens=request.token_limit,
            logprobs=request.num_top_logprobs,
            **_common_settings(request),
        )
        return await _generate(models, name, "chat", arguments, request, Chats(name))

    @routes.post("/embeddings", response_model=EmbeddingList)
    async def embed_texts(request: EmbeddingRequest) -> Response:
        """Return the vectors of texts."""
        name = models.get(request.model).name
        inputs = listed(request.input)
        kind = "texts" if isinstance(inputs[0], str) else "ids"
        arguments = embed.Arguments.model_validate({kind: inputs})
        result = await models.run(name, "embed", arguments)
        return _answer(_embeddings(name, result, request.encoding_format == "base64"))

    return routes


def _chat_model(models: Models, name: str) -> ModelInfo:
    """Return the model of a name; where there is none, the only model that can chat."""
    try:
        return models.get(name)
    except NotFound:
        able = [info for info in models.list() if _can_chat(info)]
        if len({replace(info, name="", target=None) for info in able}) != 1:  # it may have 2 names
            raise
        return able[0]


def _can_chat(info: ModelInfo) -> bool:
    return "chat" in info.tasks and (info.has_chat_template or info.task != "language-model")


def _common_settings(request: GenerationRequest) -> Json:
    """Return the settings that completions and chats have in common, by their names in tasks."""
    if request.stream_options is not None and not request.stream:
        raise BadRequest("stream_options: only a streamed answer has them.", "stream_options")
    temperature, top_p = request.temperature, request.top_p
    return {
        "temperature": DEFAULT_TEMPERATURE if temperature is None else temperature,
        "top_p": 1.0 if top_p is None else top_p,
        "top_k": request.top_k or 0,
        "seed": request.seed,
        "n": request.n or 1,
        "stop": [request.stop] if isinstance(request.stop, str) else request.stop or [],
        "repetition_penalty": request.repetition_penalty or 1.0,
        "presence_penalty": request.presence_penalty or 0.0,
        "frequency_penalty": request.frequency_penalty or 0.0,
        "stream": bool(request.stream),
    }


class Completions:
    """Answers of /v1/completions.

    Args:
        model: Name of the model.
    """

    def __init__(self, model: str) -> None:
        self._head = _head("cmpl", model) | {"object": "text_completion"}

    def whole(self, result: Json) -> Json:
        """Return the answer with all continuations."""
        choices = [
            _completion(choice["index"], choice, choice["finish_reason"])
            for choice in result["choices"]
        ]
        return {**self._head, "choices": choices, "usage": _usage(result)}

    def chunks(self, event: Json) -> Iterator[Json]:
        """Yield the answers to an event of the task."""
        part = {**event, "tokens": event["tokens"] or None}
        choice = _completion(event["choice"], part, event.get("finish_reason"))
        yield {**self._head, "choices": [choice], "usage": None}

    def usage_chunk(self, result: Json) -> Json:
        """Return the last answer, with the numbers of tokens."""
        return {**self._head, "choices": [], "usage": _usage(result)}


class Chats:
    """Answers of /v1/chat/completions.

    Args:
        model: Name of the model.
    """

    def __init__(self, model: str) -> None:
        self._head = _head("chatcmpl", model)
        self._chunk_head = {**self._head, "object": "chat.completion.chunk"}
        self._begun: set[int] = set()  # choices with a first chunk

    def whole(self, result: Json) -> Json:
        """Return the answer with all choices."""
        choices = [
            {
                "index": choice["index"],
                "message": {"role": "assistant", "content": choice["text"], "refusal": None},
                "logprobs": _chat_logprobs(choice["tokens"]),
                "finish_reason": choice["finish_reason"],
            }
            for choice in result["choices"]
        ]
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": choices, "usage": _usage(result)}

    def chunks(self, event: Json) -> Iterator[Json]:
        """Yield the answers to an event of the task: the role first, the end last."""
        index = event["choice"]
        if index not in self._begun:
            self._begun.add(index)
            yield self._chunk(index, {"role": "assistant", "content": ""})
        if event["text"] or event["tokens"]:
            yield self._chunk(index, {"content": event["text"]}, event["tokens"] or None)
        if reason := event.get("finish_reason"):
            yield self._chunk(index, {}, finish_reason=reason)

    def usage_chunk(self, result: Json) -> Json:
        """Return the last answer, with the numbers of tokens."""
        return {**self._chunk_head, "choices": [], "usage": _usage(result)}

    def _chunk(
        self,
        index: int,
        delta: Json,
        tokens: Sequence[Json] | None = None,
        finish_reason: str | None = None,
    ) -> Json:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": _chat_logprobs(tokens),
            "finish_reason": finish_reason,
        }
        return {**self._chunk_head, "choices": [choice], "usage": None}


async def _generate(
    models: Models,
    name: str,
    task: str,
    arguments: BaseModel,
    request: GenerationRequest,
    answers: Completions | Chats,
) -> Response:
    """Run a task and answer as the request asks: at once, or in chunks."""
    if not request.stream:
        return _answer(answers.whole(await models.run(name, task, arguments)))
    events = models.stream(name, task, arguments)
    first = await anext(events)  # a request that fails before it has a status of its own
    lines = _lines(first, events, answers, request.includes_usage)
    return StreamingResponse(lines, headers=STREAM_HEADERS, media_type="text/event-stream")


async def _lines(
    first: Json,
    events: AsyncGenerator[Json, None],
    answers: Completions | Chats,
    includes_usage: bool,
) -> AsyncIterator[str]:
    """Yield the chunks of an answer as server-sent events."""
    try:
        async with aclosing(events):
            for chunk in answers.chunks(first):
                yield _line(chunk)
            async for event in events:
                if "result" not in event:
                    for chunk in answers.chunks(event):
                        yield _line(chunk)
                elif includes_usage:
                    yield _line(answers.usage_chunk(event["result"]))
    except ServingError as error:
        yield _line(error_body(error))
    yield "data: [DONE]\n\n"


def _answer(content: Json) -> Response:
    return Response(json.dumps(content, separators=(",", ":")), media_type="application/json")


def _line(content: Json) -> str:
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n"


def _head(prefix: str, model: str) -> Json:
    return {
        "id": f"{prefix}-{secrets.token_hex(12)}",
        "created": int(time.time()),
        "model": model,
    }


def _model(info: ModelInfo) -> Json:
    return {"id": info.name, "object": "model", "created": info.created, "owned_by": "regard"}


def _usage(result: Json) -> Json:
    prompt, completion = result["prompt_tokens"], result["completion_tokens"]
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _completion(index: int, part: Json, finish_reason: str | None) -> Json:
    """Return a continuation, or a part of one, with the tokens that it has."""
    return {
        "index": index,
        "text": part["text"],
        "logprobs": None if part["tokens"] is None else _logprobs(part["tokens"]),
        "finish_reason": finish_reason,
    }


def _logprobs(tokens: Sequence[Json]) -> Json:
    return {
        "tokens": [token["text"] for token in tokens],
        "token_logprobs": [_finite(token["log_prob"]) for token in tokens],
        "top_logprobs": [_top_logprobs(token) for token in tokens],
        "text_offset": [token["offset"] for token in tokens],
    }


def _top_logprobs(token: Json) -> Json | None:
    """Return the log-probabilities of a token and of the most likely ones, by their texts."""
    if token["log_prob"] is None:
        return None
    top: Json = {}
    for text, log_prob in [*token["top"], (token["text"], token["log_prob"])]:
        top.setdefault(text, _finite(log_prob))
    return top


def _chat_logprobs(tokens: Sequence[Json] | None) -> Json | None:
    if tokens is None:
        return None
    content = [
        _logprob(token["text"], token["log_prob"])
        | {"top_logprobs": [_logprob(text, log_prob) for text, log_prob in token["top"]]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _logprob(text: str, log_prob: float) -> Json:
    content = None if PART_OF_CHARACTER in text else list(text.encode())
    return {"token": text, "logprob": _finite(log_prob), "bytes": content}


def _finite(log_prob: float | None) -> float | None:
    return None if log_prob is None else max(log_prob, LEAST_LOG_PROB)


def _embeddings(name: str, result: Mapping[str, Any], as_base64: bool) -> Json:
    tokens = result["input_tokens"]
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _base64(vector) if as_base64 else vector,
        }
        for index, vector in enumerate(result["vectors"])
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": name, "usage": usage}


def _base64(vector: Sequence[float]) -> str:
    """Return numbers as the base64 of little-endian float32."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode()
