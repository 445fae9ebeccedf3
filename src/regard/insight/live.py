"""A local page where a person types a text and sees at once what looks at what.

The server is for this machine: it listens on loopback unless asked otherwise, answers to its own
names only, so that no other site can reach it through the browser, and takes texts of a bearable
size.
"""

import ipaddress
import threading
from collections.abc import Sequence
from typing import Any

from regard.errors import ConfigError, RegardError
from regard.insight.look import look
from regard.insight.page import render
from regard.insight.picture import Film, Picture, film

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

LONGEST = 20_000  # characters of a text


class Question(BaseModel):
    text: str = Field(max_length=LONGEST)
    beside: str | None = Field(None, max_length=LONGEST)
    to: str | None = Field(None, max_length=20)


def application(models: Sequence[tuple[str, Any]], hosts: Sequence[str] = ("*",)) -> FastAPI:
    """Of one model, or of two side by side: (title, what `regard.load` gave)."""
    app = FastAPI(title="Regard", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    one_at_a_time = threading.Lock()  # watching hangs hooks on the model
    start = render.render(Film(()), live=True)

    @app.get("/", response_class=HTMLResponse)
    def show() -> str:
        return start

    @app.post("/look")
    def answer(question: Question) -> dict[str, Any]:
        with one_at_a_time:
            try:
                return film(*pictures(models, question)).to_json()
            except RegardError as error:
                raise HTTPException(422, str(error)) from None

    return app


def pictures(models: Sequence[tuple[str, Any]], question: Question) -> list[Picture]:
    """Each model's of the text; of one model, the other text's as well where there is one."""
    texts = [question.text]
    if question.beside and question.beside.strip() and len(models) == 1:
        texts.append(question.beside)
    return [look(loaded, text, question.to, title) for text in texts for title, loaded in models]


def serve(models: Sequence[tuple[str, Any]], host: str, port: int) -> None:
    """Until Ctrl-C."""
    hosts = ("localhost", "127.0.0.1", "[::1]") if is_loopback(host) else ("*",)
    uvicorn.run(application(models, hosts), host=host, port=port, log_level="warning")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
