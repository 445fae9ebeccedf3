"""The application: the routes of all protocols, and errors in the shape of each.

A protocol is a module of `regard.serving.api`; there is no list to edit.
"""

import math
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib import import_module
from typing import Any, Protocol, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from regard import __version__
from regard.serving import api
from regard.serving.errors import BadRequest, InternalError, ServingError, error_of_status
from regard.serving.hang_ups import CancelHangUps
from regard.serving.models import Models
from regard.serving.settings import ServerSettings


class ClientProtocol(Protocol):
    """A module of `regard.serving.api`."""

    PREFIXES: tuple[str, ...]

    def router(self, models: Models, settings: ServerSettings, /) -> APIRouter: ...

    def error_body(self, error: ServingError) -> dict[str, Any]: ...


def application(models: Models, settings: ServerSettings) -> FastAPI:
    """Return the application of some models, without the middleware that protects it."""
    routers = {protocol: protocol.router(models, settings) for protocol in protocols()}
    app = FastAPI(
        title="Regard",
        version=__version__,
        openapi_tags=[tag for pair in routers.items() for tag in _described_tags(*pair)],
        docs_url=None,  # it would load scripts from other sites
        redoc_url=None,
    )
    for router in routers.values():
        app.include_router(router)
    app.add_middleware(CancelHangUps)
    app.add_exception_handler(ServingError, _answer)
    app.add_exception_handler(RequestValidationError, _answer)
    app.add_exception_handler(HTTPException, _answer)
    app.add_exception_handler(Exception, _answer)
    return app


def _described_tags(protocol: ClientProtocol, router: APIRouter) -> list[dict[str, Any]]:
    """Return the tags of a protocol's routes, described by the first line of its module."""
    description = (protocol.__doc__ or "").partition("\n")[0]
    return [{"name": tag, "description": description} for tag in router.tags]


@cache
def protocols() -> tuple[ClientProtocol, ...]:
    """Return the modules of all protocols."""
    names = (module.name for module in pkgutil.iter_modules(api.__path__))
    return tuple(
        cast("ClientProtocol", import_module(f"{api.__name__}.{name}"))
        for name in sorted(names)
        if not name.startswith("_")
    )


def error_response(path: str, error: ServingError) -> JSONResponse:
    """Return the answer to a failed request, in the shape of the protocol that its path has."""
    protocol = _protocol(path)
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if protocol is None:
        return JSONResponse({"detail": error.message}, error.status, headers)
    statuses: Mapping[int, int] = getattr(protocol, "STATUSES", {})
    status = statuses.get(error.status, error.status)
    return JSONResponse(protocol.error_body(error), status, headers)


def _protocol(path: str) -> ClientProtocol | None:
    """Return the protocol with the longest prefix of a path."""
    matching = [
        (len(prefix), protocol)
        for protocol in protocols()
        for prefix in protocol.PREFIXES
        if f"{path}/".startswith(f"{prefix.rstrip('/')}/")
    ]
    return max(matching, key=lambda match: match[0])[1] if matching else None


async def _answer(request: Request, error: Exception) -> JSONResponse:
    response = error_response(request.url.path, serving_error(error))
    if isinstance(error, HTTPException):
        response.headers.update(error.headers or {})
    return response


def serving_error(error: Exception) -> ServingError:
    """Return any exception of a request as a ServingError."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, RequestValidationError):
        return _validation_error(error.errors())
    if isinstance(error, HTTPException):
        return error_of_status(error.status_code, f"{str(error.detail).rstrip('.')}.")
    return InternalError("the server failed; its log says why.")


def _validation_error(problems: Sequence[Any]) -> BadRequest:
    """Return which fields of a request are wrong, and never their content."""
    fields = [_field(problem["loc"]) for problem in problems]
    sentences = [
        f"{field}: {problem['msg']}" for field, problem in zip(fields, problems, strict=True)
    ]
    return BadRequest(f"{'; '.join(sentences[:5])}.", fields[0] if fields else None)


def _field(location: Sequence[str | int]) -> str:
    """Return the name of a field: messages.0.content; for damaged JSON, the character where."""
    match location:
        case ["body", int(position)]:
            return f"character {position + 1} of the request"
        case [_, *names] if names:
            return ".".join(map(str, names))
        case _:
            return "the request"
