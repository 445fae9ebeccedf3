"""Messages between the server and a worker: JSON objects, one a line, over a Unix socket.

    server → worker   {"id": 7, "task": "translate", "arguments": {…}, "seconds": 120.0,
                       "request_id": "5f0c2b9a"}
                      {"cancel": 7}
    worker → server   {"ready": {"seconds": 0.4}}        the model is loaded, or
                      {"failed": "the reason."}          the worker ends
                      {"id": 7, "event": {…}}            any number of them, then one of
                      {"id": 7, "result": {…}}
                      {"id": 7, "error": {"status": 422, "message": "…", "param": null, …}}
                      {"stats": {"active": 3, "waiting": 0, "memory": 123456789, …}}

The end of the stream ends a worker. Characters are escaped, so that a line is ASCII whatever a
text contains.
"""

import json
from collections.abc import Iterator
from typing import Any

MAX_MESSAGE = 1 << 28  # bytes

Message = dict[str, Any]


class DamagedMessageError(Exception):
    """Bytes that are no message: a bug in one of the processes."""


def encode(message: Message) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Decoder:
    """Messages from the bytes of a stream, which arrive in pieces."""

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max_message = max_message
        self._parts: list[bytes] = []  # of a line whose end has not arrived
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete.

        Raises:
            DamagedMessageError: A line is too long, or no JSON object.
        """
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end))
            self._parts, self._size = [], 0
            yield _decode(line)
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > self._max_message:
            raise DamagedMessageError(f"a message has more than {self._max_message:,} bytes.")


def _decode(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedMessageError(f"a message is no JSON ({error}).") from None
    if not isinstance(message, dict):
        raise DamagedMessageError("a message is no JSON object.")
    return message
