"""A local server for the attention page: type a text and see its attention.

The server is meant for this machine: it listens on loopback by default, accepts only its own host
names, so that no other site can reach it through the browser, and limits the length of texts.
"""

import ipaddress
import threading
from collections.abc import Sequence
from typing import Any

from regard.errors import ConfigError, RegardError
from regard.insight.look import look
from regard.insight.page import render
from regard.insight.picture import History, Picture

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException
    from fastapi.middleware.trustedhost import TrustedHostMiddleware
    from fastapi.responses import HTMLResponse
    from pydantic import BaseModel, Field
except ImportError as error:
    raise ConfigError(
        "the live page needs FastAPI and uvicorn: install them with `pip install 'regard[serve]'`."
    ) from error

MAX_CHARACTERS = 20_000


class LookRequest(BaseModel):
    """A text to show, and another one to show beside it."""

    text: str = Field(max_length=MAX_CHARACTERS)
    compare: str | None = Field(None, max_length=MAX_CHARACTERS)
    to: str | None = Field(None, max_length=20)


def application(models: Sequence[tuple[str, Any]], hosts: Sequence[str] = ("*",)) -> FastAPI:
    """Return the application for one model, or two side by side: (title, loaded predictor)."""
    app = FastAPI(title="Regard", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    one_at_a_time = threading.Lock()  # recording registers hooks on the model
    start = render.render(History(()), live=True)

    @app.get("/", response_class=HTMLResponse)
    def show() -> str:
        return start

    @app.post("/look")
    def answer(request: LookRequest) -> dict[str, Any]:
        with one_at_a_time:
            try:
                return History.of(*pictures(models, request)).to_json()
            except RegardError as error:
                raise HTTPException(422, str(error)) from None

    return app


def pictures(models: Sequence[tuple[str, Any]], request: LookRequest) -> list[Picture]:
    """Return each model's picture of the text; with one model, also of the text to compare."""
    texts = [request.text]
    if request.compare and request.compare.strip() and len(models) == 1:
        texts.append(request.compare)
    return [look(loaded, text, request.to, title) for text in texts for title, loaded in models]


def serve(models: Sequence[tuple[str, Any]], host: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    hosts = ("localhost", "127.0.0.1", "[::1]") if is_loopback(host) else ("*",)
    uvicorn.run(application(models, hosts), host=host, port=port, log_level="warning")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
