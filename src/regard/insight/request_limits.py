"""Limits of the live page's requests, enforced before anything is parsed.

A request whose body is too large, too slow or not JSON is answered with one sentence. At most
MAX_BODY bytes of a request are ever in memory.
"""

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.web.request_bodies import (
    BodyLimits,
    BodyTooLargeError,
    BodyTooSlowError,
    read_body,
    receive_nothing,
    replay,
)

MAX_CHARACTERS = 20_000  # of a text
MAX_BODY = 2**19  # bytes: two texts, with every character escaped as two \uXXXX
MAX_SECONDS = 10.0  # from the head of a request to the end of its body


class LimitRequests:
    """ASGI middleware that reads a request's body within limits and passes it on whole."""

    def __init__(self, app: ASGIApp, max_seconds: float = MAX_SECONDS) -> None:
        self._app, self._limits = app, BodyLimits(MAX_BODY, max_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        if scope["method"] == "POST" and not _is_json(headers):
            sentence = "send JSON, with the header Content-Type: application/json."
            return await _refuse(415, sentence, scope, send)
        try:
            body = await read_body(receive, headers, self._limits)
        except ClientDisconnect:
            return None
        except BodyTooSlowError:
            sentence = f"the request took longer than {self._limits.max_seconds:g} seconds."
            return await _refuse(408, sentence, scope, send)
        except BodyTooLargeError:
            sentence = (
                f"the request is larger than {MAX_BODY:,} bytes: give texts of at most "
                f"{MAX_CHARACTERS:,} characters."
            )
            return await _refuse(413, sentence, scope, send)
        return await self._app(scope, replay(body, receive), send)


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


async def _refuse(status: int, sentence: str, scope: Scope, send: Send) -> None:
    """Answer with a sentence, and close the connection: the rest of the body is not read."""
    answer = JSONResponse({"detail": sentence}, status, {"Connection": "close"})
    await answer(scope, receive_nothing, send)
