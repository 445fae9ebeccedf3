"""Limits of the size of a request's body, and of the time that it takes to arrive.

The whole body is read before anything looks at it, so that a slow client holds no route and no
model, only its connection and at most `max_bytes` of memory.
"""

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.errors import ServingError, TooLarge
from regard.web.request_bodies import (
    BodyLimits,
    BodyTooLargeError,
    BodyTooSlowError,
    read_body,
    replay,
)

MAX_SECONDS = 20.0  # from the head of a request to the end of its body


class BodyTooSlow(ServingError):  # noqa: N818
    """A request whose body did not arrive in time."""

    status = 408


class LimitBodies:
    """ASGI middleware that reads a request's body within limits and passes it on whole."""

    def __init__(self, app: ASGIApp, max_bytes: int, max_seconds: float = MAX_SECONDS) -> None:
        self._app, self._limits = app, BodyLimits(max_bytes, max_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            body = await read_body(receive, Headers(scope=scope), self._limits)
        except ClientDisconnect:
            return None
        except BodyTooSlowError:
            seconds = self._limits.max_seconds
            raise BodyTooSlow(f"the request took longer than {seconds:g} seconds.") from None
        except BodyTooLargeError:
            limit = self._limits.max_bytes
            raise TooLarge(f"the request is larger than {limit:,} bytes; send less.") from None
        return await self._app(scope, replay(body, receive), send)
