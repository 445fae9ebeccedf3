"""Connections with the limits that uvicorn leaves out, and its options for the others.

A client holds a connection for a bounded time whatever it does not do: send the head of its request
(slow loris), or read its answer. Bodies are limited in `middleware/body_limits.py`, and idle
connections by uvicorn.
"""

from asyncio import TimerHandle, Transport
from collections import deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_CONNECTIONS = 2048  # more are answered with 503
KEEP_ALIVE_SECONDS = 20  # between the answer and the next request
HEAD_SECONDS = 10.0  # from the connection, or the first byte of a request, to the end of its head
MAX_HEAD = 2**16  # bytes of the request line and the headers
MAX_HEADERS = 100
STALLED_SECONDS = 30.0  # in which a client reads nothing of its answer

END = b"content-length: 0\r\nconnection: close\r\n\r\n"
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\n" + END
HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + END


class LimitedConnection(HttpToolsProtocol):
    """HTTP connection that ends when a head is too slow or too large, or an answer is not read.

    A client may send further requests before the first is answered (pipelining). Where one of them
    ends the connection, those before it are canceled; uvicorn would cancel the last one only.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unanswered: deque[RequestResponseCycle] = deque()
        self._head_timer: TimerHandle | None = None
        self._stalled_timer: TimerHandle | None = None
        self._head_size = 0
        self._is_in_head = True

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self.resume_writing()
        self._cancel_requests()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_size += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_size > MAX_HEAD:
            self._refuse(HEAD_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        self._refuse(BAD_REQUEST)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._is_in_head:  # a later request on the same connection
            self._begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")  # it is refused as a bad request
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()
        while self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.popleft()
        self._unanswered.append(self.cycle)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_timer = self.loop.call_later(STALLED_SECONDS, self._close)

    def resume_writing(self) -> None:
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None
        super().resume_writing()

    def _begin_head(self) -> None:
        self._is_in_head, self._head_size = True, 0
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def _end_head(self) -> None:
        self._is_in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, answer: bytes) -> None:
        """Answer bytes that are no request, unless it would seem to answer an earlier request."""
        if self.transport.is_closing():
            return
        if not any(map(_awaits_answer, self._unanswered)):
            self.transport.write(answer)
            self._cancel_requests()
            self.transport.close()
        else:
            self._close()

    def _close(self) -> None:
        """Close the connection at once, whatever is still to be sent."""
        self._cancel_requests()
        self.transport.abort()

    def _cancel_requests(self) -> None:
        for cycle in self._unanswered:
            cycle.disconnected = True  # nothing more is written
            cycle.message_event.set()


def _awaits_answer(cycle: RequestResponseCycle) -> bool:
    """Return whether a request is whole, and its answer is not; the damage is in a later one."""
    return not cycle.response_complete and (not cycle.more_body or cycle.response_started)


def uvicorn_options() -> dict[str, Any]:
    """Return the options of uvicorn.Config that concern connections."""
    return {
        "http": LimitedConnection,
        "ws": "none",
        "limit_concurrency": MAX_CONNECTIONS,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "proxy_headers": False,  # X-Forwarded-For would let clients choose their rate limit
        "server_header": False,
        "access_log": False,  # `logs.py` writes it
    }
