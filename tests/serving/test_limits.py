"""Requests that are too large, too slow or malformed, over raw sockets."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from regard.serving import connections
from regard.serving.middleware.answers import AnswerErrors
from regard.serving.middleware.body_limits import LimitBodies

from .http_in_thread import answers_of, ask, connect, seconds_to_close, serving

MAX_BODY = 1000
MEGABYTE = 2**20
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


async def size(request: Request) -> JSONResponse:
    return JSONResponse(len(await request.body()))


async def endless(_: Request) -> StreamingResponse:
    async def parts():
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)  # as code that waits for a model

    return StreamingResponse(parts())


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port of a server with small limits."""
    app = Starlette(routes=[Route("/", size, methods=["POST"]), Route("/endless", endless)])
    limited = AnswerErrors(
        LimitBodies(app, MAX_BODY, max_seconds=0.4),
        lambda _, error: JSONResponse({"detail": error.message}, error.status),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "HEAD_SECONDS", 0.4)
        patch.setattr(connections, "STALLED_SECONDS", 0.4)
        with serving(limited, limit_concurrency=20, timeout_keep_alive=1) as number:
            yield number


def chunked(*parts: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks


def test_bodies_within_the_limit_arrive_whole(port: int) -> None:
    body = b"a" * MAX_BODY
    assert ask(port, HEAD + b"Content-Length: 1000\r\n\r\n" + body) == (200, b"1000")
    assert ask(port, chunked(body[:400], body[400:])) == (200, b"1000")
    assert ask(port, HEAD + b"\r\n") == (200, b"0")
    assert ask(port, chunked()) == (200, b"0")


def test_larger_bodies_are_answered(port: int) -> None:
    for request in (
        HEAD + b"Content-Length: 1001\r\n\r\n" + b"a" * 1001,
        HEAD + b"Content-Length: 99999999999\r\n\r\n",
        HEAD + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n",
        chunked(b"a" * 900, b"a" * 101),
        chunked(b"a" * MEGABYTE),
    ):
        status, body = ask(port, request)
        assert status == 413
        assert json.loads(body)["detail"] == "the request is larger than 1,000 bytes; send less."


def test_endless_bodies_are_cut_off(port: int) -> None:
    with connect(port) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        sent, part = 0, b"100000\r\n" + b"a" * MEGABYTE + b"\r\n"
        with suppress(ConnectionError):
            while sent < 100:
                client.sendall(part)
                sent += 1
        assert sent < 50


def test_slow_bodies_are_answered(port: int) -> None:
    """A byte now and then keeps no connection alive."""
    for head in (b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
        with connect(port) as client:
            client.sendall(HEAD + head)
            start = time.monotonic()
            status, body = answers_of(client)[0]
            assert time.monotonic() - start < 2
        assert status == 408
        assert json.loads(body)["detail"] == "the request took longer than 0.4 seconds."


@pytest.mark.parametrize("sent", [b"", b"GET /", HEAD, HEAD + b"X-Slow: "])
def test_half_open_connections_are_closed(port: int, sent: bytes) -> None:
    with connect(port) as client:
        client.sendall(sent)
        assert 0.2 < seconds_to_close(client) < 2


def test_heads_that_drip_are_closed(port: int) -> None:
    """A slow loris sends a byte of its headers now and then."""
    with connect(port) as client:
        start = time.monotonic()
        client.sendall(HEAD)
        with suppress(ConnectionError):
            while time.monotonic() - start < 3:
                client.sendall(b"X")
                time.sleep(0.05)
        assert time.monotonic() - start < 2


def test_second_requests_have_limits_too(port: int) -> None:
    with connect(port) as client:
        client.sendall(HEAD + b"Content-Length: 1\r\n\r\na")
        assert answers_of(client) == [(200, b"1")]
        client.sendall(HEAD)
        assert 0.2 < seconds_to_close(client) < 2


def test_idle_connections_are_closed(port: int) -> None:
    with connect(port) as client:
        client.sendall(HEAD + b"Content-Length: 1\r\n\r\na")
        assert answers_of(client) == [(200, b"1")]
        assert 0.5 < seconds_to_close(client) < 3


def test_clients_that_do_not_read_are_cut_off(port: int) -> None:
    """An answer that nobody reads is not computed further."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.2)
        with suppress(ConnectionResetError):
            parts = iter(lambda: client.recv(MEGABYTE), b"")  # what was sent before
            assert sum(map(len, parts)) < 100 * MEGABYTE


def test_header_floods_are_refused(port: int) -> None:
    many = b"".join(b"X-%d: a\r\n" % number for number in range(200))
    assert ask(port, HEAD + many + b"\r\n")[0] == 400
    assert ask(port, HEAD + b"X-Long: " + b"a" * MEGABYTE)[0] == 431
    assert ask(port, b"GET /" + b"a" * MEGABYTE)[0] == 431


@pytest.mark.parametrize(
    "request_",
    [
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: +1\r\n\r\na",
        HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        HEAD + b"X : a\r\n\r\n",
        HEAD + b"X: a\x00b\r\n\r\n",
        b"POST / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\xff" * 100,
    ],
)
def test_ambiguous_requests_are_refused(port: int, request_: bytes) -> None:
    """Two lengths are two requests to two parsers: request smuggling."""
    assert ask(port, request_)[0] == 400


def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    requests = [HEAD + b"Content-Length: %d\r\n\r\n" % n + b"a" * n for n in range(1, 60)]
    with connect(port) as client:
        client.sendall(b"".join(requests))
        answers = answers_of(client, len(requests))
    assert answers == [(200, b"%d" % n) for n in range(1, 60)]


def test_a_bad_request_behind_others_gets_no_answer_of_theirs(port: int) -> None:
    """A 400 would be taken for the answer to the first request."""
    good = b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n"
    slow = HEAD + b"Content-Length: 100\r\n\r\n"
    for data in (slow + b"a" * 100 + b"\xff" * 100, good + b"GET /" + b"a" * MEGABYTE):
        with connect(port) as client:
            with suppress(ConnectionError):
                client.sendall(data)
            assert all(status == 200 for status, _ in answers_of(client, 2))


def test_connections_beyond_the_limit_are_refused_and_the_server_lives(port: int) -> None:
    clients = [connect(port) for _ in range(30)]
    time.sleep(0.2)
    clients[-1].sendall(HEAD + b"Content-Length: 1\r\n\r\na")
    assert answers_of(clients[-1])[0][0] == 503
    for client in clients:
        client.close()
    time.sleep(0.2)
    assert ask(port, HEAD + b"Content-Length: 1\r\n\r\na") == (200, b"1")
