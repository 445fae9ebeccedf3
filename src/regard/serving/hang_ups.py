"""Requests whose client has hung up are canceled: nobody reads their answer."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

Message = MutableMapping[str, Any]

DISCONNECT = {"type": "http.disconnect"}


class CancelHangUps:
    """ASGI middleware that cancels the code of a request when its client disconnects.

    It must be around the application itself: canceled code answers nothing.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        connection = _Connection(receive)
        handler = asyncio.current_task()
        assert handler is not None
        watcher = asyncio.create_task(connection.watch(handler))
        try:
            await self._app(scope, connection.receive, send)
        except asyncio.CancelledError:
            if not connection.is_gone.is_set():
                raise  # the server cancels the request
            handler.uncancel()
        finally:
            watcher.cancel()


class _Connection:
    """The messages of a client: those of its request, and then its end."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_read = asyncio.Event()  # the whole body
        self.is_gone = asyncio.Event()

    async def receive(self) -> Message:
        """Return the next part of the body, and then wait for the end of the connection."""
        if self._is_read.is_set():
            await self.is_gone.wait()
            return dict(DISCONNECT)
        message = await self._receive()
        if not message.get("more_body", False):
            self._is_read.set()
        return message

    async def watch(self, handler: "asyncio.Task[Any]") -> None:
        """Cancel the handler when the client disconnects after its request."""
        await self._is_read.wait()
        while (await self._receive())["type"] != DISCONNECT["type"]:
            pass
        handler.cancel()
        self.is_gone.set()
