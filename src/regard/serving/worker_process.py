"""Processes of workers, started by the server."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regard.errors import ConfigError
from regard.hardware import THREADS, cores
from regard.pretrained import MANIFEST, located
from regard.serving.settings import ServerSettings

SECONDS_TO_END = 5.0  # after its socket has been closed

ARENAS = "2"  # of the C library's memory: with one for each thread, what they free is not reused

Version = tuple[int, int, int]  # of a file: another one has been put in its place if it differs


@dataclass(frozen=True)
class WorkerProcess:
    """A process and the server's end of the socket to it."""

    process: "subprocess.Popen[bytes]"
    connection: socket.socket
    version: Version | None  # of the model that it loads

    @classmethod
    def start(
        cls, run: Path, settings: ServerSettings, max_active: int | None = None
    ) -> "WorkerProcess":
        """Start the worker of a run.

        Args:
            run: The run folder.
            settings: Of the server.
            max_active: Number of requests that it computes at the same time (default: that of the
                settings).
        """
        _require_unix()
        version = model_version(run)
        ours, theirs = socket.socketpair()
        options = (settings.bits, max_active or settings.max_active, settings.max_tokens)
        # -P: no module is imported from the current folder, which may be any.
        command = [sys.executable, "-P", "-m", "regard.serving.worker", str(theirs.fileno())]
        with theirs:
            process = subprocess.Popen(
                [*command, str(located(run)), *map(str, options)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**_defaults(), **os.environ},
            )
        return cls(process, ours, version)

    def end(self) -> str:
        """Wait for the process, whose socket is closed, and return how it ended."""
        with suppress(subprocess.TimeoutExpired):
            return _ending(self.process.wait(SECONDS_TO_END))
        self.process.kill()
        return _ending(self.process.wait())


def _defaults() -> dict[str, str]:
    """Return the environment of workers where the server's does not say otherwise.

    One core is left to the server: threads of the engine wait for each other at every step, longest
    where another process has taken the core of one of them.
    """
    return {
        THREADS: str(max(1, cores() - 1)),
        "MALLOC_ARENA_MAX": ARENAS,
        "PYDANTIC_DISABLE_PLUGINS": "1",  # they are looked for among all installed packages
    }


def model_version(run: Path) -> Version | None:
    """Return the version of a run's model.json; None while there is none."""
    try:
        status = (located(run) / MANIFEST).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _require_unix() -> None:
    if sys.platform == "win32":
        raise ConfigError("regard serve needs Linux or macOS; on Windows, run it in WSL.")
