"""Answers to the requests that the middleware refuses."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.errors import ServingError
from regard.web.request_bodies import receive_nothing

ErrorResponse = Callable[[str, ServingError], Response]  # of the protocol that a path belongs to


class AnswerErrors:
    """ASGI middleware that answers a ServingError of the middleware inside of it.

    The connection is closed: the body of the request may still be on its way.
    """

    def __init__(self, app: ASGIApp, response: ErrorResponse) -> None:
        self._app, self._response = app, response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except ServingError as error:
            response = self._response(scope["path"], error)
            response.headers["connection"] = "close"
            await response(scope, receive_nothing, send)
