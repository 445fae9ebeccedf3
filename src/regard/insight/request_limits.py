"""Limits of the live page's requests, enforced before anything is parsed.

A request whose body is too large, too slow or not JSON is answered with one sentence. At most
MAX_BODY bytes of a request are ever in memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MAX_CHARACTERS = 20_000  # of a text
MAX_BODY = 2**19  # bytes: two texts, with every character escaped as two \uXXXX
MAX_DISCARDED = 2**22  # bytes of a larger body that are read, so that a browser sees the answer
MAX_SECONDS = 10.0  # from the head of a request to the end of its body

Message = MutableMapping[str, Any]


class LimitRequests:
    """ASGI middleware that reads a request's body within limits and passes it on whole."""

    def __init__(self, app: ASGIApp, max_seconds: float = MAX_SECONDS) -> None:
        self._app, self._max_seconds = app, max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        if scope["method"] == "POST" and not _is_json(headers):
            return await _refuse(
                415, "send JSON, with the header Content-Type: application/json.", scope, send
            )
        try:
            body = await asyncio.wait_for(_read(receive, _declared(headers)), self._max_seconds)
        except TimeoutError:
            sentence = f"the request took longer than {self._max_seconds:g} seconds."
            return await _refuse(408, sentence, scope, send)
        if body is None:
            sentence = (
                f"the request is larger than {MAX_BODY:,} bytes: give texts of at most "
                f"{MAX_CHARACTERS:,} characters."
            )
            return await _refuse(413, sentence, scope, send)
        return await self._app(scope, _replay(body, receive), send)


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _declared(headers: Headers) -> int:
    """Return the size of the body that the request declares; 0 for one that is sent in chunks."""
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0


async def _read(receive: Receive, declared: int) -> bytes | None:
    """Return the body; None if it is larger than MAX_BODY."""
    if declared > MAX_DISCARDED:
        return None  # at once: nothing of it is read
    parts, size = [], 0
    while size <= MAX_DISCARDED:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        part: bytes = message.get("body", b"")
        size += len(part)
        if max(size, declared) <= MAX_BODY:
            parts.append(part)
        if not message.get("more_body", False):
            break
    return b"".join(parts) if max(size, declared) <= MAX_BODY else None


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a receiver of the body, and then of what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def _refuse(status: int, sentence: str, scope: Scope, send: Send) -> None:
    """Answer with a sentence, and close the connection: the rest of the body is not read."""

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    headers = {"Connection": "close"}
    await JSONResponse({"detail": sentence}, status, headers)(scope, nothing, send)
