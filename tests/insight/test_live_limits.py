"""Requests that are too large, too slow, too many or not what they should be, to a real server."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from regard.errors import ConfigError
from regard.insight import live, request_limits
from regard.insight.live import application
from regard.insight.request_limits import MAX_BODY, MAX_CHARACTERS
from regard.web.addresses import listen

from .test_live import EN, folder, translator  # noqa: F401  (fixtures)

HEAD = b"POST /look HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MEGABYTE = 2**20


class Server:
    """A real server process on a port that the system chose."""

    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-m", "regard", "look", str(run), "--live", "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        address = re.fullmatch(r"http://127\.0\.0\.1:(\d+) shows it; Ctrl-C ends\.\n", line)
        assert address, line
        self.port = int(address[1])
        self.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    def connect(self) -> socket.socket:
        for _ in range(200):
            with suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=30)
            time.sleep(0.1)
        raise AssertionError("the server does not listen")

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send bytes and return the status and the body of the answer."""
        with self.connect() as client:
            client.sendall(request)
            return answer_of(client)

    def memory(self) -> int:
        """Return the highest resident memory so far, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match
        return int(match[1]) * 1024


def answer_of(client: socket.socket) -> tuple[int, bytes]:
    """Read the answer; a server that stops reading may reset the connection after it."""
    data = b""
    with suppress(ConnectionResetError):
        while part := client.recv(65536):
            data += part
            head, found, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if found and length and len(body) >= int(length[1]):
                break
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:  # noqa: F811
    running = Server(folder)
    with running.process:
        yield running
        running.process.send_signal(signal.SIGINT)
        log, _ = running.process.communicate(timeout=30)
    assert running.process.returncode == 0
    assert set(log.splitlines()) <= {"WARNING:  Exceeded concurrency limit."}  # no traceback


def posted(body: bytes) -> bytes:
    return HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def send_all(client: socket.socket, size: int, chunked: bool) -> int:
    """Send letters until the server stops reading; return how many bytes it took."""
    sent, part = 0, b"a" * MEGABYTE
    with suppress(ConnectionResetError, BrokenPipeError):
        while sent < size:
            client.sendall(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
            sent += len(part)
    return sent


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_stay_out_of_memory(server: Server, chunked: bool) -> None:
    size, before = 200 * MEGABYTE, server.memory()
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % size
    with server.connect() as client:
        client.sendall(HEAD + length + b"\r\n\r\n" + (b'4\r\n{"te\r\n' if chunked else b'{"te'))
        sent = send_all(client, size, chunked)
        assert sent < 50 * MEGABYTE  # the server closed the connection
    assert server.memory() - before < 16 * MEGABYTE


def test_body_that_is_a_little_too_large_is_answered(server: Server) -> None:
    body = json.dumps({"text": "a" * (2 * MAX_BODY)}).encode()
    for request in (
        posted(body),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
        HEAD + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n",
    ):
        status, answer = server.ask(request)
        assert status == 413
        assert json.loads(answer)["detail"] == (
            "the request is larger than 524,288 bytes: give texts of at most 20,000 characters."
        )


def test_invalid_requests_are_named_and_never_repeated(server: Server) -> None:
    secret = "mnemosyne"
    for body, status, message in (
        (json.dumps({"text": secret * 5000}), 422, "text: .*at most 20000 characters"),
        (json.dumps({"text": 7, "compare": [secret]}), 422, "text: .*string; compare: .*string"),
        (json.dumps({"text": {"a": secret}}), 422, "text: .*valid string"),
        (json.dumps({secret: secret}), 422, "text: Field required"),
        (json.dumps([secret]), 422, "body: .*"),
        (f'{{"text": "{secret}', 422, r"character 10 of the request: JSON decode error"),
        ("", 422, "body: Field required"),
        ("[" * 200_000, 400, "error parsing the body"),
        ('{"text": ' * 50_000, 400, "error parsing the body"),
        ('{"text": ' + "9" * 100_000 + "}", 400, "error parsing the body"),
        ('{"text": "a\\ud800"}', 422, "text: .*valid string"),
        ('{"text": "a", "compare": "\\udc80"}', 422, "compare: .*valid string"),
        (json.dumps({"text": "a", "to": "xx"}), 422, "xx"),
    ):
        got, answer = server.ask(posted(body.encode()))
        assert got == status, (body[:50], answer)
        detail = json.loads(answer)["detail"]
        assert re.search(message, detail), detail
        assert secret not in detail
        assert len(detail) < 300
    assert server.ask(posted(b'\xff{"text": "a"}'))[0] == 400


def test_other_content_types_are_refused(server: Server) -> None:
    """A page of another site can send forms and plain text, but no JSON."""
    body = json.dumps({"text": EN}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        head = HEAD.replace(b"application/json", kind.encode())
        status, answer = server.ask(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert status == 415
        assert json.loads(answer)["detail"].startswith("send JSON")
    kind = b"Application/JSON; charset=utf-8"
    head = HEAD.replace(b"application/json", kind) + b"Connection: close\r\n"
    assert server.ask(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)[0] == 200


def test_strangers_are_refused_before_their_body_is_read(server: Server) -> None:
    head = HEAD.replace(b"localhost", b"evil.example")
    with server.connect() as client:
        client.sendall(head + b"Content-Length: 1000000\r\n\r\n")
        assert answer_of(client)[0] == 400


def test_largest_texts_fit(translator) -> None:  # noqa: F811
    """Two texts of the greatest length, every character escaped in JSON, are within the limit."""
    text = "\U0001f600" * MAX_CHARACTERS
    assert len(json.dumps({"text": text, "compare": text, "to": "a" * 20})) <= MAX_BODY
    answer = TestClient(application([("", translator)])).post(
        "/look", content=json.dumps({"text": text}), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, "at most 30" in answer.json()["detail"]) == (422, True)


def test_slow_clients_are_refused(translator) -> None:  # noqa: F811
    """The body of a request has a time limit."""
    import asyncio

    async def ask() -> list[dict[str, object]]:
        sent: list[dict[str, object]] = []

        async def receive() -> dict[str, object]:
            await asyncio.sleep(0.02)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message) -> None:
            sent.append(dict(message))

        scope = {
            "type": "http",
            "method": "POST",
            "headers": [(b"content-type", b"application/json")],
        }
        app = application([("", translator)])
        await request_limits.LimitRequests(app, max_seconds=0.2)(scope, receive, send)
        return sent

    start, body = asyncio.run(ask())
    assert start["status"] == 408
    assert json.loads(body["body"])["detail"] == "the request took longer than 0.2 seconds."


def test_texts_beyond_a_queue_are_refused(translator, monkeypatch) -> None:  # noqa: F811
    """While one text is shown others wait, up to a number."""
    monkeypatch.setattr(live, "MAX_WAITING", 2)
    release = threading.Event()
    monkeypatch.setattr(live, "pictures", lambda *_: release.wait(20) and [])
    client = TestClient(application([("", translator)]))
    answers: list[tuple[int, object]] = []

    def ask() -> None:
        answer = client.post("/look", json={"text": EN})
        answers.append((answer.status_code, answer.json()))
        release.set()  # the first answer is the refusal: the others wait for this

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == (503, {"detail": "2 texts are waiting: try again later."})
    assert [status for status, _ in answers[1:]] == [200, 200]


def test_many_connections_are_refused_and_the_server_lives(server: Server) -> None:
    clients = [server.connect() for _ in range(live.MAX_CONNECTIONS + 10)]
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    time.sleep(0.3)
    clients[-1].sendall(request)
    assert answer_of(clients[-1])[0] == 503
    for client in clients:
        client.close()
    for _ in range(100):
        if server.ask(request)[0] == 200:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the server did not recover")


def test_addresses_that_cannot_be_served_are_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for host, number in (
            ("127.0.0.1", port),
            ("", 8321),
            ("300.1.1.1", 8321),
            ("no such host", 8321),
            ("a" * 5000, 8321),
            ("é" * 100, 8321),
            ("192.0.2.1", 8321),
            ("[::1]", 8321),
        ):
            with pytest.raises(ConfigError, match=r"cannot listen there .*; choose another"):
                listen(host, number)
    with listen("localhost", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_own_address_is_accepted(translator) -> None:  # noqa: F811
    app = application([("", translator)], ("localhost", "127.0.0.5"))
    assert TestClient(app, base_url="http://127.0.0.5:99").get("/").status_code == 200
