"""A local server for the attention page: type a text and see its attention.

The server is meant for this machine: it listens on loopback by default, accepts only its own host
names and JSON, so that no other site can reach it through the browser, and limits the size, the
duration and the number of requests.
"""

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field

from regard.errors import RegardError
from regard.insight.look import look
from regard.insight.page import render
from regard.insight.picture import History, Picture
from regard.insight.request_limits import MAX_CHARACTERS, LimitRequests
from regard.web.addresses import is_loopback

MAX_WAITING = 8  # texts; the model shows one at a time
MAX_CONNECTIONS = 64
SECONDS_TO_END = 3  # for running requests, after Ctrl-C


class LookRequest(BaseModel):
    """A text to show, and another one to show beside it."""

    text: str = Field(max_length=MAX_CHARACTERS)
    compare: str | None = Field(None, max_length=MAX_CHARACTERS)
    to: str | None = Field(None, max_length=20)


def application(models: Sequence[tuple[str, Any]], hosts: Sequence[str] = ("*",)) -> FastAPI:
    """Return the application for one model, or two side by side: (title, loaded predictor)."""
    app = FastAPI(title="Regard", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(LimitRequests)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    one_at_a_time = threading.Lock()  # recording registers hooks on the model
    waiting = threading.BoundedSemaphore(MAX_WAITING)
    start = render.render(History(()), live=True)

    @app.get("/", response_class=HTMLResponse)
    def show() -> str:
        return start

    @app.post("/look")
    def answer(request: LookRequest) -> dict[str, Any]:
        if not waiting.acquire(blocking=False):
            raise HTTPException(503, f"{MAX_WAITING} texts are waiting: try again later.")
        try:
            with one_at_a_time:
                return History.of(*pictures(models, request)).to_json()
        except RegardError as error:
            raise HTTPException(422, str(error)) from None
        finally:
            waiting.release()

    return app


async def _refuse_invalid(_: Request, error: Exception) -> JSONResponse:
    """Answer an invalid request with the fields and their rules, never with its content."""
    details = error.errors() if isinstance(error, RequestValidationError) else []
    sentences = [f"{_field(detail['loc'])}: {detail['msg']}" for detail in details]
    return JSONResponse({"detail": "; ".join(sentences) + "."}, 422)


def _field(location: Sequence[str | int]) -> str:
    """Return the name of a field; for JSON that cannot be parsed, the character where."""
    last = location[-1]
    return f"character {last + 1} of the request" if isinstance(last, int) else last


def pictures(models: Sequence[tuple[str, Any]], request: LookRequest) -> list[Picture]:
    """Return each model's picture of the text; with one model, also of the text to compare."""
    texts = [request.text]
    if request.compare and request.compare.strip() and len(models) == 1:
        texts.append(request.compare)
    return [look(loaded, text, request.to, title) for text in texts for title, loaded in models]


def serve(models: Sequence[tuple[str, Any]], host: str, listener: socket.socket) -> None:
    """Serve the page until Ctrl-C."""
    own = ("localhost", "127.0.0.1", "[::1]", host)
    config = uvicorn.Config(
        application(models, own if is_loopback(host) else ("*",)),
        log_level="warning",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
