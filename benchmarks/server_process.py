"""A server in a process of its own, on a loopback port: its CPU time and its memory."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

START_SECONDS, END_SECONDS = 120, 20
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class ServerProcess:
    """A running server and its child processes.

    Args:
        process: The server.
        port: Its port on 127.0.0.1.
    """

    def __init__(self, process: "subprocess.Popen[Any]", port: int) -> None:
        self._process = process
        self.port = port

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the processes that run."""
        stats = [_read(pid, "stat").rpartition(")")[2].split() for pid in self._pids()]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats if stat) / TICKS

    @property
    def memory(self) -> int:
        """Resident bytes of all processes; of pages that they share, once."""
        lines = [line for pid in self._pids() for line in _read(pid, "smaps_rollup").splitlines()]
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))

    def _pids(self) -> list[int]:
        """Return the processes: the server, its children, and theirs."""
        pids = [self._process.pid]
        for pid in pids:
            for thread in _threads(pid):
                pids += map(int, _read(pid, f"task/{thread}/children").split())
        return pids

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.require_running()
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        sys.exit(f"the server does not listen: {self._process.args}")

    def require_running(self) -> None:
        """Exit if the server has ended: there is nothing to measure."""
        if self._process.poll() is not None:
            sys.exit(f"the server has ended: {self._process.args}")

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_server(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run a server until the end of the block.

    Args:
        command: Starts it; PORT in it is replaced by a port that is free.
        environment: Variables besides those of this process.
    """
    port = _free_port()
    arguments = [argument.replace("PORT", str(port)) for argument in command]
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
    )
    server = ServerProcess(process, port)
    try:
        server.wait_until_it_listens()
        yield server
    finally:
        server.end()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _threads(pid: int) -> list[str]:
    with suppress(OSError):
        return [path.name for path in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _read(pid: int, name: str) -> str:
    """Return a file of a process; nothing if the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    return ""
