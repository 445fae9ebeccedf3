"""The page for people at `/`, and the small API of its scripts under /regard/.

The page is static and loads nothing from elsewhere. Every task is answered by a stream of events
(server-sent events), of which the last is {"result": …} or {"error": …}: the end of the connection
ends the request in the model's process.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError

from regard.serving.attention_page import attention_page
from regard.serving.errors import NotFound, ServingError
from regard.serving.file_translation import translate_file
from regard.serving.models import Models
from regard.serving.settings import ServerSettings
from regard.serving.tasks import look
from regard.serving.tasks.base import task

PREFIXES = ("/regard/",)
ASSETS = "/regard/assets/"
LOOK = "/regard/look/"
TASKS = ("translate", "align", "summarize", "generate", "fill", "classify")

# Packages with the files of the page; the palette is that of the attention page.
FOLDERS = {"regard.serving.page": None, "regard.insight.page": ("palette.css",)}
MEDIA_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}

Event = Mapping[str, Any]
Events = AsyncGenerator[dict[str, Any], None]


class Asset(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str


class LookRequest(look.Arguments):
    """The texts that the attention page sends, and the model of its address."""

    model: str


def error_body(error: ServingError) -> dict[str, Any]:
    """Return the JSON of an error."""
    return {"detail": error.message}


def router(models: Models, settings: ServerSettings) -> APIRouter:
    """Return the routes of the page."""
    routes = APIRouter(include_in_schema=False)
    assets = _assets()

    @routes.get("/")
    async def show(request: Request) -> Response:
        return _answer(assets["page.html"], request)

    @routes.get(ASSETS + "{name}")
    async def show_asset(name: str, request: Request) -> Response:
        if name not in assets:
            raise NotFound("there is no such file.")
        return _answer(assets[name], request)

    @routes.get("/regard/server")
    async def describe_server() -> dict[str, Any]:
        descriptions = [_description(info) for info in models.list()]
        return {"models": descriptions, "max_body": settings.max_body}

    @routes.get(LOOK)
    async def show_attention() -> Response:
        policy, html = await asyncio.to_thread(attention_page)
        policy += "; frame-ancestors 'none'"
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    @routes.post(LOOK + "look")
    async def run_look(request: LookRequest) -> dict[str, Any]:
        name = models.get(request.model).name  # before it is a title: it may be anything
        texts = request.model_dump(exclude={"model", "title"})
        arguments = look.Arguments(**texts, title=name[: look.MAX_TITLE])
        return await models.run(name, "look", arguments)

    @routes.post("/regard/documents/{model}")
    async def translate_document(
        model: str, request: Request, name: str, to: str, source: str | None = None
    ) -> Response:
        content = await request.body()
        return await _stream(translate_file(models, model, name, content, source, to))

    @routes.post("/regard/{name}/{model}")
    async def run_task(name: str, model: str, request: Request) -> Response:
        if name not in TASKS:
            raise NotFound("there is no such path.")
        return await _stream(models.stream(model, name, await _arguments(name, request)))

    return routes


def _assets() -> dict[str, Asset]:
    """Read the files of the page, by their names."""
    assets = {}
    for package, names in FOLDERS.items():
        for file in files(package).joinpath("assets").iterdir():
            media_type = MEDIA_TYPES.get(file.name.rpartition(".")[2])
            if media_type and (names is None or file.name in names):
                content = file.read_bytes()
                etag = f'"{sha256(content).hexdigest()[:16]}"'
                assets[file.name] = Asset(content, media_type, etag)
    return assets


def _answer(asset: Asset, request: Request) -> Response:
    """Return a file, or that the browser has it already."""
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}  # checked at each use
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _description(info: Any) -> dict[str, Any]:
    """Return a model as the page needs it; attention is shown where torch is installed."""
    description = asdict(info)
    if find_spec("torch") is None:
        description["tasks"] = [name for name in info.tasks if name != "look"]
    return description


async def _arguments(name: str, request: Request) -> BaseModel:
    try:
        return task(name).Arguments.model_validate_json(await request.body())
    except ValidationError as error:
        problems = error.errors(include_url=False)
        located = [{**problem, "loc": ("body", *problem["loc"])} for problem in problems]
        raise RequestValidationError(located) from None


async def _stream(events: Events) -> StreamingResponse:
    """Answer with events as they come; a request that fails before the first has its own status."""
    first = await anext(events)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(first, events), headers=headers, media_type="text/event-stream")


async def _lines(first: Event, events: Events) -> AsyncIterator[str]:
    try:
        async with aclosing(events):
            yield _line(first)
            async for event in events:
                yield _line(event)
    except ServingError as error:
        yield _line({"error": error.message})


def _line(event: Event) -> str:
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n"
