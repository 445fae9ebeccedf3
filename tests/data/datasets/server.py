"""A server of files on this machine, which can cut connections, redirect and refuse."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Serves `pages`; `asked` has the path and range of every request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.pages: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.statuses: list[int] = []  # of the next answers
        self.cuts: list[int] = []  # bytes of the next answers after which the connection ends
        self.ranges = True
        self.delay = threading.Event()  # answers wait for it
        self.delay.set()
        self.asked: list[tuple[str, str | None]] = []


class _Answer(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append((self.path, wanted))
        server.delay.wait(10)
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        if self.path in server.redirects:
            self.send_response(302)
            self.send_header("Location", server.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if self.path not in server.pages:
            return self.send_error(404)
        return self._send(server.pages[self.path], wanted if server.ranges else None)

    def _send(self, page: bytes, wanted: str | None) -> None:
        first = int(re.findall(r"\d+", wanted)[0]) if wanted else 0
        if wanted and first >= len(page):
            return self.send_error(416)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{len(page) - 1}/{len(page)}")
        self.send_header("Content-Length", str(len(page) - first))
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(page)
        self.wfile.write(page[first : first + cut])
        return None

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def file_server() -> Iterator[FileServer]:
    """Run a server for the time of the block."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
