"""Bodies of requests, read within limits of size and time before anything is parsed."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive

MAX_DISCARDED = 2**22  # bytes of a larger body that are read, so that a browser sees the answer

Message = MutableMapping[str, Any]


class BodyTooLargeError(Exception):
    """Body with more bytes than the limit."""


class BodyTooSlowError(Exception):
    """Body that took longer than the limit."""


@dataclass(frozen=True)
class BodyLimits:
    """Limits of one request's body."""

    max_bytes: int
    max_seconds: float  # from the head of the request to the end of its body


async def read_body(receive: Receive, headers: Headers, limits: BodyLimits) -> bytes:
    """Return the whole body; at most `limits.max_bytes` of it are ever in memory.

    Raises:
        BodyTooLargeError: It has more bytes.
        BodyTooSlowError: It took longer.
        ClientDisconnect: The client closed the connection.
    """
    try:
        async with asyncio.timeout(limits.max_seconds):
            return await _read(receive, _declared_size(headers), limits.max_bytes)
    except TimeoutError:
        raise BodyTooSlowError from None


async def _read(receive: Receive, declared: int, max_bytes: int) -> bytes:
    if declared > max(MAX_DISCARDED, max_bytes):
        raise BodyTooLargeError  # at once: nothing of it is read
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if max(size, declared) <= max_bytes:
            parts.append(part)
        else:
            parts.clear()
        more = message.get("more_body", False) and size <= max(MAX_DISCARDED, max_bytes)
    if max(size, declared) > max_bytes:
        raise BodyTooLargeError
    return b"".join(parts)


def _declared_size(headers: Headers) -> int:
    """Return the size of the body that the request declares; 0 for one that is sent in chunks."""
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0


def replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a receiver of the body, and then of what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def receive_nothing() -> Message:
    """Return the message of a connection that was closed: the rest of a body is not read."""
    return {"type": "http.disconnect"}
