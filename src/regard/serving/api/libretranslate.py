"""The protocol of LibreTranslate, for libretranslatepy, deep-translator, Subtitle Edit and others.

Fields come as JSON, as a form, or, with an empty body, in the query string. Errors are worded as
LibreTranslate's: {"error": "Invalid request: missing q parameter"}.
"""

import json
import re
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote_plus

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import Headers, UploadFile

from regard.data.languages import describe_language
from regard.errors import shortened
from regard.serving.api._bodies import (
    FORM,
    JSON,
    MULTIPART,
    NO_OBJECT,
    first_problem,
    json_body,
    media_type,
    read_body,
    read_multipart,
)
from regard.serving.api._translators import Detection, Translators, known_language
from regard.serving.documents import FORMATS, parse_document, translate_in_parts
from regard.serving.errors import BadRequest, ServingError
from regard.serving.file_results import FileResults
from regard.serving.models import Models
from regard.serving.settings import ServerSettings
from regard.serving.tasks.base import MAX_TEXTS
from regard.serving.tasks.translate import MAX_ALTERNATIVES
from regard.serving.text_limits import MAX_CHARACTERS

AUTO = "auto"
DOWNLOADS, DOWNLOAD = "/download_file/", "download_file"  # path, name of the route
# The key in a form of each kind; bounded, for bodies that are made to take long.
FORM_KEY = re.compile(rb"(?:^|&)api_key=([^&]{0,1000})")
MULTIPART_KEY = re.compile(
    rb'name="?api_key"?[^\r\n]{0,20}+\r\n(?:[^\r\n]{1,200}+\r\n){0,5}+\r\n([^\r\n]{0,1000})'
)
PREFIXES = (
    "/translate",
    "/translate_file",
    DOWNLOADS,
    "/detect",
    "/languages",
    "/suggest",
    "/health",
    "/frontend/settings",
)
STATUSES = {401: 403, 422: 400}  # by the statuses of ServingError

Text = Annotated[str, Field(min_length=1)]
Code = Annotated[str, Field(min_length=1, max_length=64)]


class TranslateRequest(BaseModel):
    """Texts to translate."""

    q: Text | Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]
    source: Code = Field(description="Language of the texts, or auto")
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES, description="Further translations")
    api_key: str | None = None


class TranslateResponse(BaseModel):
    """Translations; each is a list if `q` is one."""

    translatedText: str | list[str]  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detection | list[Detection] | None = None  # noqa: N815


class DetectRequest(BaseModel):
    """A text whose language is detected."""

    q: Text | Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]
    api_key: str | None = None


class SuggestRequest(BaseModel):
    """A better translation."""

    q: Text
    s: Text
    source: Code
    target: Code


class SuggestResponse(BaseModel):
    """Answer to a suggestion."""

    success: bool


class Language(BaseModel):
    """A language, and those that it is translated into."""

    code: str
    name: str
    targets: list[str]


class FileResponse(BaseModel):
    """Address of the translated file, for half an hour."""

    translatedFileUrl: str  # noqa: N815


class Error(BaseModel):
    """An error, in one sentence."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Error}, 403: {"model": Error}, 413: {"model": Error}, 429: {"model": Error},
    503: {"model": Error}, 504: {"model": Error},
}  # fmt: skip
FILE_FORM = {
    "required": True,
    "content": {
        MULTIPART: {
            "schema": {
                "type": "object",
                "required": ["file", "source", "target"],
                "properties": {
                    "file": {"type": "string", "format": "binary"},
                    "source": {"type": "string", "minLength": 1},
                    "target": {"type": "string", "minLength": 1},
                    "api_key": {"type": "string"},
                },
            }
        }
    },
}


def router(models: Models, settings: ServerSettings) -> APIRouter:
    """Return the routes of the protocol."""
    server = _Server(models, settings)
    routes = APIRouter(tags=["LibreTranslate"], responses=ERRORS)
    routes.post(
        "/translate",
        response_model=TranslateResponse,
        openapi_extra=json_body(TranslateRequest, FORM),
    )(server.translate)
    routes.post(
        "/detect", response_model=list[Detection], openapi_extra=json_body(DetectRequest, FORM)
    )(server.detect)
    routes.get("/languages", response_model=list[Language])(server.languages)
    routes.post(
        "/translate_file", response_model=FileResponse, openapi_extra={"requestBody": FILE_FORM}
    )(server.translate_file)
    routes.get(
        DOWNLOADS + "{name}",
        response_class=Response,
        responses={404: {"model": Error}},
        name=DOWNLOAD,
    )(server.download)
    routes.post(
        "/suggest", response_model=SuggestResponse, openapi_extra=json_body(SuggestRequest, FORM)
    )(server.suggest)
    routes.get("/frontend/settings")(server.frontend_settings)
    routes.get("/health")(server.health)
    return routes


def error_body(error: ServingError) -> dict[str, Any]:
    """Return the body of an answer to an error."""
    message = error.message.removesuffix(".")
    return {"error": f"Slowdown: {message}" if error.status == 429 else message}


def api_key(query_string: bytes, headers: Headers, body: bytes) -> str | None:
    """Return the API key in the fields of a request, or None."""
    kind = media_type(headers)
    if kind == JSON:
        return _json_key(body)
    in_form = MULTIPART_KEY.search(body) if kind == MULTIPART else FORM_KEY.search(body)
    match = in_form or FORM_KEY.search(query_string)
    value = match[1].decode(errors="replace") if match else ""
    return (value if kind == MULTIPART and in_form else unquote_plus(value)) or None


def _json_key(body: bytes) -> str | None:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None  # the route refuses it
    key = fields.get("api_key") if isinstance(fields, dict) else None
    return key if isinstance(key, str) and key else None


class _Server:
    """Answers to the requests of the protocol."""

    def __init__(self, models: Models, settings: ServerSettings) -> None:
        self._translators = Translators(models)
        self._files = FileResults()
        self._needs_key = settings.keys_file is not None

    async def translate(self, request: Request) -> Response:
        """Translate a text, or a list of texts.

        A text that is in the target language already is returned as it is.
        """
        fields = await read_body(request, TranslateRequest, _refuse)
        source, target = self._direction(fields.source, fields.target)
        translations = await self._translators.translate(
            [fields.q] if isinstance(fields.q, str) else fields.q,
            source,
            target,
            html=fields.format == "html",
            alternatives=fields.alternatives,
        )
        columns: dict[str, list[Any]] = {"translatedText": [own["text"] for own in translations]}
        if fields.alternatives:
            columns["alternatives"] = [own["alternatives"] for own in translations]
        if source is None:
            columns["detectedLanguage"] = [
                {"confidence": own["source_confidence"], "language": own["source"]}
                for own in translations
            ]
        if isinstance(fields.q, str):
            return JSONResponse({name: column[0] for name, column in columns.items()})
        return JSONResponse(columns)

    async def detect(self, request: Request) -> Response:
        """Detect the language of a text; a list of texts is one text."""
        fields = await read_body(request, DetectRequest, _refuse)
        text = fields.q if isinstance(fields.q, str) else "\n".join(fields.q)
        (detections,) = await self._translators.detect([text])
        return JSONResponse([own.model_dump() for own in detections])

    async def languages(self) -> Response:
        """List the languages, each with those that it is translated into."""
        directions = sorted(self._translators.directions())
        return JSONResponse(
            [
                {
                    "code": language,
                    "name": describe_language(language),
                    "targets": [target for source, target in directions if source == language],
                }
                for language in self._translators.languages()
            ]
        )

    async def translate_file(self, request: Request) -> Response:
        """Translate a file of text, subtitles or a gettext catalog, line by line."""
        is_form = media_type(request.headers) == MULTIPART
        form: Mapping[str, Any] = await read_multipart(request) if is_form else {}
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            raise _missing("file")
        source, target = self._direction(*(_field(form, name) for name in ("source", "target")))
        document = await to_thread(parse_document, file.filename, await file.read())
        if source is None:
            source = await self._translators.source_of(document.texts, target)

        async def translate(texts: Sequence[str]) -> list[str]:
            translations = await self._translators.translate(
                texts, source, target, html=document.is_markup
            )
            return [own["text"] for own in translations]

        parts = [part async for part in translate_in_parts(document.texts, translate)]
        content = await to_thread(document.translated, parts[-1])
        name = self._files.add(translated_name(file.filename, target), content)
        return JSONResponse({"translatedFileUrl": str(request.url_for(DOWNLOAD, name=name))})

    async def download(self, name: str) -> Response:
        """Return a translated file."""
        result = self._files.get(name)
        disposition = f"attachment; filename*=UTF-8''{quote(result.file_name, safe='')}"
        return Response(
            result.content,
            media_type="text/plain; charset=utf-8",
            headers={"Content-Disposition": disposition, "Cache-Control": "no-store"},
        )

    async def suggest(self, request: Request) -> Response:
        """Accept a better translation; it is not stored."""
        await read_body(request, SuggestRequest, _refuse)
        return JSONResponse({"success": True})

    async def frontend_settings(self) -> dict[str, Any]:
        """Return what a page of LibreTranslate needs to know."""
        languages = self._translators.languages() or ["en"]
        target = "en" if "en" in languages else languages[0]
        return {
            "charLimit": MAX_CHARACTERS,
            "frontendTimeout": 500,
            "apiKeys": self._needs_key,
            "keyRequired": self._needs_key,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FORMATS),
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": {"code": target, "name": describe_language(target)},
            },
        }

    async def health(self) -> dict[str, str]:
        """Answer as long as the server lives."""
        return {"status": "ok"}

    def _direction(self, source: str, target: str) -> tuple[str | None, str]:
        """Return the languages of a request as the models name them; None for auto.

        Raises:
            BadRequest: No model translates in this direction.
        """
        directions = self._translators.directions()
        languages = {language for direction in directions for language in direction}
        from_, to = (known_language(code, languages) for code in (source, target))
        if from_ is None and source != AUTO:
            raise BadRequest(f"{shortened(source)} is not supported.", "source")
        if to is None:
            raise BadRequest(f"{shortened(target)} is not supported.", "target")
        if from_ is not None and from_ != to and (from_, to) not in directions:
            names = [f"{describe_language(code)} ({code})" for code in (to, from_)]
            raise BadRequest(
                f"{names[0]} is not available as a target language from {names[1]}.", "target"
            )
        return from_, to


def translated_name(name: str, target: str) -> str:
    """Return the name of a translated file: notes.txt is notes_fr.txt."""
    path = PurePosixPath(name.replace("\\", "/"))
    return f"{path.stem}_{target}{path.suffix}"


def _field(form: Mapping[str, Any], name: str) -> str:
    value = form.get(name)
    if not isinstance(value, str) or not value:
        raise _missing(name)
    return value


def _missing(field: str) -> BadRequest:
    return BadRequest(f"Invalid request: missing {field} parameter.", field)


def _refuse(error: ValidationError) -> BadRequest:
    """Return the error for the first wrong field, in LibreTranslate's words."""
    problem = first_problem(error)
    field = problem.field
    if problem.kind in NO_OBJECT:
        return BadRequest("Invalid JSON format.")
    if problem.kind == "missing" or problem.value in ("", [], None):
        return _missing(field)
    if field == "format" and isinstance(problem.value, str):
        return BadRequest(f"{shortened(problem.value)} format is not supported.", field)
    if field == "alternatives" and problem.kind == "int_parsing":
        return BadRequest("Invalid request: alternatives parameter is not a number.", field)
    return BadRequest(f"Invalid request: {field} parameter: {problem.message}.", field)
