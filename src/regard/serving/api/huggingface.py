"""Hugging Face's inference API, for InferenceClient(model="http://…/models/NAME").

The task follows from the model and the parameters, or is in the path: /models/NAME/TASK. Text is
streamed as text-generation-inference does.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.serving.api._bodies import first_problem
from regard.serving.api._huggingface_tasks import (
    TASKS,
    GenerationParameters,
    Inputs,
    Parameters,
    tasks_of,
    token,
)
from regard.serving.errors import BadRequest, NotFound, ServingError, Unprocessable
from regard.serving.models import ModelInfo, Models
from regard.serving.settings import ServerSettings

PREFIXES = ("/models/",)
GENERATION, ZERO_SHOT = "text-generation", "zero-shot-classification"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class TaskRequest(BaseModel):
    """Texts and parameters; parameters of feature extraction may be beside the texts."""

    model_config = ConfigDict(extra="allow")

    inputs: Inputs
    parameters: dict[str, Any] = {}
    stream: bool = False
    options: dict[str, Any] = Field({}, description="Of the service; without effect here")

    @property
    def all_parameters(self) -> dict[str, Any]:
        """The parameters, wherever they are; those that are null are left out."""
        together = {**(self.model_extra or {}), **self.parameters}
        return {name: value for name, value in together.items() if value is not None}


class ModelDescription(BaseModel):
    """A model, and what it does."""

    id: str
    pipeline_tag: str | None = Field(description="The task that follows from the model")
    tasks: list[str]
    directions: list[tuple[str, str]] = Field(description="Languages of a translator")
    labels: list[str]
    max_input_length: int = Field(description="Tokens")


class TaskError(BaseModel):
    """An error, in one sentence, and its kind."""

    error: str
    error_type: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": TaskError} for status in (400, 401, 404, 413, 422, 429, 503, 504)
}
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def router(models: Models, _: ServerSettings) -> APIRouter:
    """Return the routes of the protocol."""
    routes = APIRouter(prefix="/models", tags=["Hugging Face"], responses=ERRORS)

    @routes.get("/{name}", response_model=ModelDescription)
    @routes.get("/{name}/info", response_model=ModelDescription, include_in_schema=False)
    async def describe(name: str) -> ModelDescription:
        """Describe a model."""
        return _description(models.get(name))

    @routes.get("/{name}/health", include_in_schema=False)
    async def is_served(name: str) -> Response:
        models.get(name)
        return Response()

    @routes.post("/{name}", response_model=None, responses=STREAMED)
    async def run(name: str, request: TaskRequest) -> Response:
        """Do the task that the model is for."""
        info = models.get(name)
        return await _answer(models, info, _task_of(info, request), request)

    @routes.post("/{name}/{task}", response_model=None, responses=STREAMED)
    async def run_task(name: str, task: str, request: TaskRequest) -> Response:
        """Do a task."""
        info = models.get(name)
        if task not in TASKS:
            raise NotFound(f"there is no task of this name; this model does {_listed(info)}.")
        models.for_task(TASKS[task].task, name)
        return await _answer(models, info, task, request)

    return routes


def error_body(error: ServingError) -> dict[str, Any]:
    """Return the body of an answer to an error."""
    kinds = {429: "overloaded", 503: "overloaded"}
    kind = kinds.get(error.status, "validation" if error.status < 500 else "generation")
    return {"error": error.message, "error_type": kind}


def _task_of(info: ModelInfo, request: TaskRequest) -> str:
    """Return the task that follows from a model and the parameters of a request."""
    tasks = tasks_of(info)
    if ZERO_SHOT in tasks and "candidate_labels" in request.all_parameters:
        return ZERO_SHOT
    if not tasks:
        raise BadRequest(f"{info.name} does no task of this protocol.")
    return tasks[0]


async def _answer(models: Models, info: ModelInfo, task: str, request: TaskRequest) -> Response:
    parameters = _parameters(TASKS[task], request.all_parameters)
    try:
        arguments = parameters.arguments(info, request.inputs)
    except ValidationError as error:
        raise _refusal(error) from None
    if request.stream:
        return await _stream(models, info, request.inputs, parameters, arguments)
    result = await models.run(info.name, parameters.task, arguments)
    return JSONResponse(parameters.answer(request.inputs, result))


async def _stream(
    models: Models,
    info: ModelInfo,
    inputs: Inputs,
    parameters: Parameters,
    arguments: BaseModel,
) -> Response:
    """Answer with tokens as they are generated."""
    if not isinstance(parameters, GenerationParameters) or not isinstance(inputs, str):
        raise BadRequest("stream: only the text after one prompt is streamed.", "stream")
    arguments = arguments.model_copy(update={"stream": True, "logprobs": 0})
    events = models.stream(info.name, parameters.task, arguments)
    first = await anext(events)  # a request that fails before it has a status of its own
    lines = _lines(first, events, inputs, parameters)
    return StreamingResponse(lines, headers=STREAM_HEADERS, media_type="text/event-stream")


async def _lines(
    first: Mapping[str, Any],
    events: AsyncIterator[dict[str, Any]],
    prompt: str,
    parameters: GenerationParameters,
) -> AsyncIterator[str]:
    """Yield each token as a server-sent event, the last one with the whole text."""
    index, last = 0, {"id": 0, "text": "", "logprob": None, "special": True}
    try:
        async for event in _chained(first, events):
            if "result" in event:
                (choice,) = event["result"]["choices"]
                details = parameters.finish(choice) | {
                    "input_length": event["result"]["prompt_tokens"]
                }
                text = parameters.generated_text(prompt, choice)
                yield _line(max(index, 1), last, generated_text=text, details=details)
                return
            for own in _tokens(event):
                if index:
                    yield _line(index, last)
                index, last = index + 1, own
    except ServingError as error:
        yield f"data:{json.dumps(error_body(error))}\n\n"


async def _chained(
    first: Mapping[str, Any], events: AsyncIterator[dict[str, Any]]
) -> AsyncIterator[Mapping[str, Any]]:
    yield first
    async with aclosing(events):  # type: ignore[type-var]  # it is an async generator
        async for event in events:
            yield event


def _tokens(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tokens of an event; their texts together are its text."""
    tokens = event["tokens"]
    texts = [own["text"] for own in tokens]
    if "".join(texts) != event["text"]:  # a character of several tokens, a stop string
        texts = [event["text"], *[""] * (len(tokens) - 1)]
    return [token(own, text) for own, text in zip(tokens, texts, strict=True)]


def _line(index: int, token: Mapping[str, Any], **ending: Any) -> str:
    event = {"index": index, "token": token, "generated_text": None, "details": None, **ending}
    return f"data:{json.dumps(event, separators=(',', ':'))}\n\n"


def _parameters(kind: type[Parameters], values: Mapping[str, Any]) -> Parameters:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> ServingError:
    """Return the error for the first wrong parameter."""
    problem = first_problem(error)
    if problem.kind == "extra_forbidden":
        return BadRequest(f"{problem.field} is not supported: leave it out.", problem.field)
    if problem.kind == "missing":
        return BadRequest(f"{problem.field} is missing.", problem.field)
    return Unprocessable(f"{problem.field}: {problem.message}.", problem.field)


def _description(info: ModelInfo) -> ModelDescription:
    tasks = tasks_of(info)
    return ModelDescription(
        id=info.name,
        pipeline_tag=tasks[0] if tasks else None,
        tasks=tasks,
        directions=list(info.directions),
        labels=list(info.labels),
        max_input_length=info.max_length,
    )


def _listed(info: ModelInfo) -> str:
    return ", ".join(tasks_of(info)) or "none"
