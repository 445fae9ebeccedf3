"""HTTP server in a thread, with the connections of `regard serve`, and raw clients of it."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from regard.serving.connections import uvicorn_options


@contextmanager
def serving(app: ASGIApp, **options: object) -> Iterator[int]:
    """Serve an application; yield its port."""
    config = uvicorn.Config(app, port=0, log_level="critical", **{**uvicorn_options(), **options})
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def answers_of(client: socket.socket, count: int = 1) -> list[tuple[int, bytes]]:
    """Read answers with a Content-Length, as many as come before the end; status and body each."""
    data, answers = b"", []
    with suppress(ConnectionResetError):
        while len(answers) < count and (part := client.recv(65536)):
            data += part
            while match := re.match(rb"HTTP/1.1 (\d+).*?\r\n\r\n", data, re.DOTALL):
                length = re.search(rb"content-length: (\d+)", match[0], re.IGNORECASE)
                end = match.end() + int(length[1] if length else 0)
                if len(data) < end:
                    break
                answers.append((int(match[1]), data[match.end() : end]))
                data = data[end:]
    return answers


def ask(port: int, request: bytes) -> tuple[int, bytes]:
    """Send bytes on a connection of their own; return the status and the body of the answer."""
    with connect(port) as client:
        with suppress(ConnectionError):  # it may have been answered, and closed, already
            client.sendall(request)
        return answers_of(client)[0]


def seconds_to_close(client: socket.socket) -> float:
    """Return the time until the server closes a connection without an answer."""
    start = time.monotonic()
    with suppress(ConnectionResetError):
        assert client.recv(1) == b""
    return time.monotonic() - start
