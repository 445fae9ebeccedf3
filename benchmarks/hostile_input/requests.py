"""Hostile requests: damaged bodies, heads and connections of a server's routes.

A case is determined by its number and the seed: the same bytes, in the same parts.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from hostile_input import mutations

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
LARGE = 5 << 20  # bytes: more than a server takes

TEXTS = [
    "",
    " " * 100,
    "\0",
    "\ud800",
    "\udfff" * 50,
    "\ufeff\u202e\u2066",
    "e" + "\u0301" * 5000,
    "🏴‍☠️👩‍👩‍👧‍👦" * 300,
    "ﷺ" * 2000,
    "\n" * 5000,
    "a" * 100_000,
    "le chat dort. " * 3000,
    "<s></s><pad><mask>" * 100,
    "<b><i><u>" * 2000,
    "<!--" * 3000,
    "&amp" * 3000,
    "../../../../etc/passwd",
    "'; DROP TABLE models; --",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "%n%s%x" * 50,
    "\x1b[2J\x1b[31m\r\n",
]
NAMES = [
    "",
    "..",
    "../fr-en",
    "/etc/passwd",
    "fr-en\0",
    "FR-EN",
    "x" * 10_000,
    "%2e%2e",
    "🦊",
    "lm",
]
TYPES = [
    "",
    "text/plain",
    FORM,
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "x" * 5000,
]
TYPES += [
    "application/json; charset=utf-16",
    "application/JSON",
    "application/octet-stream",
    "\xff",
]
METHODS = [
    "GET",
    "HEAD",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "FOO",
    "P" * 5000,
]
PATHS = ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//", "/%00", "/%ff", "/" + "a/" * 5000]
PATHS += [
    "/" + "%f0%9f%a6%8a" * 50,
    "*",
    "http://evil.example/",
    "/?" + "a=b&" * 5000,
    "/?q=%ff%fe",
    "?",
]
HEADERS = [
    "Host: evil.example",
    "Host: ",
    "Host: [::1",
    "Content-Length: 0",
    "Content-Length: 99999999999999",
    "Content-Length: -5",
    "Content-Length: 1e3",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: x",
    "Content-Encoding: gzip",
    "Expect: 100-continue",
    "Expect: x",
    "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x",
    "Range: bytes=0-0, 5-1",
    "Accept: " + "a/b;q=0.1," * 2000,
    "Accept-Encoding: br;q=nan",
    "Cookie: " + "a=b;" * 5000,
    "Authorization: " + "A" * 60_000,
    "Authorization: Bearer \xff\xfe",
    "Authorization: Basic",
    "X-Request-ID: a\tb",
    "X-Forwarded-For: 127.0.0.1, evil",
    "X-Forwarded-Host: evil.example",
    "Forwarded: for=127.0.0.1;host=evil",
    "Origin: https://evil.example",
    "Origin: null",
    "If-None-Match: " + '"a",' * 5000,
    "traceparent: 00-" + "f" * 400,
    "X: " + "a" * 200_000,
    "\r\n".join(f"X-{number}: a" for number in range(300)),
    "X-Folded: a\r\n b",
    "X\0: a",
    ": a",
    "no colon",
]


@dataclass(frozen=True)
class Operation:
    """A request that a server answers."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None  # JSON
    route: str = ""  # its template, for reports (default: the path)
    file: bytes = b""  # instead of JSON
    media_type: str = JSON

    @property
    def name(self) -> str:
        return f"{self.method} {self.route or self.path}"


@dataclass(frozen=True)
class HostileRequest:
    """Bytes for a connection, and how a client sends them."""

    number: int
    route: str
    damage: str
    parts: tuple[bytes, ...]  # sent one after another
    pause: float = 0.0  # seconds before each part but the first
    ending: str = "read"  # the answer; or close at once, reset, shut down the sending half, or wait
    is_whole: bool = True  # False: the server may wait for more of it


def make(number: int, seed: int, operations: Sequence[Operation]) -> HostileRequest:
    """Return the request of a number."""
    draw = Random(f"{seed}/{number}")
    operation = operations[number % len(operations)]
    damage = draw.choice([name for name, weight in DAMAGES.items() for _ in range(weight)])
    made = FUNCTIONS[damage](operation, draw)
    return replace(made, number=number, route=operation.name, damage=damage)


def message(
    operation: Operation,
    body: bytes | None = None,
    media_type: str = "",
    headers: Sequence[str] = (),
    first_line: str = "",
) -> bytes:
    """Return a request with the right length, after whose answer the server closes."""
    if body is None:
        body = operation.file or (json.dumps(operation.body).encode() if operation.body else b"")
    head = [
        first_line or f"{operation.method} {quote(operation.path, safe='/?=&%')} HTTP/1.1",
        *(["Host: localhost"] if not any(name.startswith("Host:") for name in headers) else []),
        "Connection: close",
        f"Content-Type: {media_type or operation.media_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1", errors="replace") + body


def _request(data: bytes, **options: Any) -> HostileRequest:
    return HostileRequest(0, "", "", (data,), **options)


def _values(operation: Operation, draw: Random) -> HostileRequest:
    """Damage values, names or bytes of the body."""
    body = operation.file or json.dumps(operation.body or {"model": "lm"}).encode()
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        with suppress(ValueError, RecursionError):  # it is damaged too much to be damaged again
            body = draw.choice(mutations.LINES if operation.file else mutations.JSON)(body, draw)
    return _request(message(operation, body))


def _text(operation: Operation, draw: Random) -> HostileRequest:
    """Replace texts by odd ones; the request itself stays well formed."""

    def replaced(value: Any) -> Any:
        if isinstance(value, str) and draw.random() < 0.7:
            return draw.choice(TEXTS if draw.random() < 0.8 else NAMES)
        if isinstance(value, dict):
            return {name: replaced(item) for name, item in value.items()}
        return [replaced(item) for item in value] if isinstance(value, list) else value

    return _request(message(operation, json.dumps(replaced(operation.body or {})).encode()))


def _number(operation: Operation, draw: Random) -> HostileRequest:
    """Set options to odd numbers."""
    body = dict(operation.body or {})
    names = ["max_tokens", "n", "best_of", "temperature", "top_p", "top_k", "seed", "logprobs"]
    names += ["alternatives", "beam", "top", "stream", "echo", "stop", "parameters", "options"]
    for name in draw.sample(names, 2):
        values = [-1, 0, 1, 3, 10**6, 2**31, 2**63, 10**30, 1.5, -1e308, None, True, "1", [], {}]
        body[name] = draw.choice(values)
    return _request(message(operation, json.dumps(body).encode()))


def _many(operation: Operation, draw: Random) -> HostileRequest:
    """Send very many texts, or very deep ones."""
    count = draw.choice((100, 1000, 20_000))
    deep: Any = "a"
    for _ in range(draw.choice((50, 500))):
        deep = [deep] if draw.random() < 0.5 else {"a": deep}
    body = dict(operation.body or {})
    for name in [name for name, value in body.items() if name != "model"][:1]:
        body[name] = draw.choice((["a"] * count, deep, {str(n): n for n in range(count)}))
    return _request(message(operation, json.dumps(body).encode()))


def _media_type(operation: Operation, draw: Random) -> HostileRequest:
    """Send the body as something else."""
    kind = draw.choice(TYPES)
    body = operation.file or json.dumps(operation.body or {}).encode()
    if kind == FORM and draw.random() < 0.7:
        fields = {name: str(value) for name, value in (operation.body or {}).items()}
        body = draw.choice(mutations.BYTES)(urlencode(fields).encode(), draw)
    return _request(message(operation, body, kind))


def _large(operation: Operation, draw: Random) -> HostileRequest:
    """Send more than the server takes."""
    size = draw.choice((LARGE, 2 * LARGE, 3 << 20))
    return _request(message(operation, json.dumps({"q": "a" * size, "input": "a"}).encode()))


def _path(operation: Operation, draw: Random) -> HostileRequest:
    """Ask for another path, or the path with something else in it."""
    path = draw.choice(PATHS)
    if draw.random() < 0.5:
        path = operation.path.rpartition("/")[0] + "/" + quote(draw.choice(NAMES))
    method = draw.choice((operation.method, draw.choice(METHODS)))
    line = f"{method} {path} HTTP/{draw.choice(('1.1', '1.1', '1.0', '2.0', '0.9', 'x'))}"
    return _request(message(operation, first_line=line), is_whole=False)


def _header(operation: Operation, draw: Random) -> HostileRequest:
    """Add odd headers."""
    headers = [draw.choice(HEADERS) for _ in range(draw.choice((1, 1, 2)))]
    return _request(message(operation, headers=headers), is_whole=False)


def _bytes(operation: Operation, draw: Random) -> HostileRequest:
    """Damage any bytes of the request."""
    data = message(operation)
    for _ in range(draw.choice((1, 2, 5))):
        data = draw.choice(mutations.BYTES)(data, draw)
    return _request(data, is_whole=False)


def _noise(_: Operation, draw: Random) -> HostileRequest:
    """Send bytes that are no HTTP."""
    data = draw.choice(
        (draw.randbytes(draw.choice((1, 100, 70_000))), b"\x16\x03\x01" + bytes(500))
    )
    return _request(data, is_whole=False)


def _chunks(operation: Operation, draw: Random) -> HostileRequest:
    """Send the body in chunks, some of them damaged."""
    body = operation.file or json.dumps(operation.body or {}).encode()
    sizes = [draw.choice((1, 7, 50)) for _ in range(20)]
    chunks, rest = [], body
    for size in sizes:
        chunks.append(b"%x\r\n%s\r\n" % (len(rest[:size]), rest[:size]) if rest[:size] else b"")
        rest = rest[size:]
    data = b"".join(chunks) + (b"%x\r\n%s\r\n" % (len(rest), rest) if rest else b"") + b"0\r\n\r\n"
    is_damaged = draw.random() < 0.5
    if is_damaged:
        data = draw.choice(mutations.BYTES)(data, draw)
    head = message(operation, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return _request(head + data, is_whole=not is_damaged)


def _half(operation: Operation, draw: Random) -> HostileRequest:
    """Send a part of a request and then nothing, for good or until the server closes."""
    data = message(operation)
    ending = draw.choice(("close",) * 10 + ("shut", "reset", "wait"))
    return _request(data[: draw.randrange(len(data))], ending=ending, is_whole=False)


def _drip(operation: Operation, draw: Random) -> HostileRequest:
    """Send a request in small parts with pauses: a slow loris that is not very patient."""
    data = message(operation)
    places = sorted(draw.sample(range(1, len(data)), min(8, len(data) - 1)))
    parts = tuple(data[i:j] for i, j in zip([0, *places], [*places, len(data)], strict=True))
    parts = parts if draw.random() < 0.5 else parts[:-1]
    is_whole = len(parts) == len(places) + 1
    return HostileRequest(0, "", "", parts, 0.02, "read" if is_whole else "close", is_whole)


def _hang_up(operation: Operation, draw: Random) -> HostileRequest:
    """Send a whole request and leave without its answer."""
    ending = draw.choice(("close", "reset", "shut"))
    return HostileRequest(0, "", "", (message(operation), b""), draw.choice((0, 0.01, 0.1)), ending)


def _pipeline(operation: Operation, draw: Random) -> HostileRequest:
    """Send several requests at once, the last one perhaps damaged."""
    data = message(operation).replace(b"Connection: close\r\n", b"")
    last = message(operation)
    if draw.random() < 0.5:
        last = draw.choice(mutations.BYTES)(last, draw)
    count = draw.choice((1, 3, 30))
    return _request(data * count + last, is_whole=False, ending=draw.choice(("read", "close")))


FUNCTIONS: dict[str, Callable[[Operation, Random], HostileRequest]] = {
    "values": _values,
    "texts": _text,
    "numbers": _number,
    "many or deep": _many,
    "media type": _media_type,
    "too large": _large,
    "path and method": _path,
    "headers": _header,
    "bytes": _bytes,
    "no HTTP": _noise,
    "chunks": _chunks,
    "half-open": _half,
    "drip": _drip,
    "hang-up": _hang_up,
    "pipeline": _pipeline,
}
DAMAGES = dict.fromkeys(FUNCTIONS, 2) | {"values": 8, "texts": 5, "numbers": 5, "too large": 1}
