"""The place of one worker: it is started when it is needed, and again when it has crashed."""

import asyncio
import logging
import time
from pathlib import Path

from regard.serving.errors import Unavailable
from regard.serving.settings import ServerSettings
from regard.serving.worker_client import WorkerClient
from regard.serving.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

STABLE_SECONDS = 10.0  # a worker that crashes later is started again at once
MAX_PAUSE_SECONDS = 60.0  # between starts of a model that cannot be loaded


class WorkerSlot:
    """At most one worker that takes requests, and earlier ones that still answer theirs.

    Args:
        run: The run folder.
        name: Name of the model, for messages.
        settings: Of the server.
        max_active: Number of requests that the worker computes at the same time.
        process: Its first worker, if it has been started before.
    """

    def __init__(
        self,
        run: Path,
        name: str,
        settings: ServerSettings,
        max_active: int,
        process: WorkerProcess | None = None,
    ) -> None:
        self._run, self._name, self._settings = run, name, settings
        self._max_active = max_active
        self._process = process
        self.client: WorkerClient | None = None  # that takes requests
        self._clients: set[WorkerClient] = set()  # of all processes
        self._starting: asyncio.Task[WorkerClient] | None = None
        self._is_ending = False
        self._failures = 0  # in a row
        self._reason = ""  # of the last one
        self._next_start = 0.0
        self.starts = 0
        self.has_loaded = False  # the last time that it was tried

    @property
    def memory(self) -> int:
        """Bytes of memory of all workers, as they have reported them last."""
        return sum(client.stats.get("memory", 0) for client in self._clients)

    async def worker(self) -> WorkerClient:
        """Return the worker for a request, once its model is loaded.

        Raises:
            Unavailable: The model cannot be loaded.
        """
        if self.client is not None and not self.client.is_ended:
            return self.client
        return await asyncio.shield(self.start())

    def start(self) -> "asyncio.Task[WorkerClient]":
        """Start a worker unless one is being started; return the task that awaits its model.

        Raises:
            Unavailable: The model could not be loaded a short time ago.
        """
        if self._starting is None:
            pause = self._next_start - time.monotonic()
            if pause > 0:
                raise Unavailable(self._reason, retry_after=pause)
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_retrieve)
        return self._starting

    async def replace(self) -> None:
        """Start a worker for a new model; the present one answers its requests and ends.

        Raises:
            Unavailable: The new model cannot be loaded; the present worker stays.
        """
        self._next_start = 0.0  # the reason of earlier failures is gone
        if self._starting is not None:
            await asyncio.wait({self._starting})
        if self.client is None:
            return  # the next request starts a worker of the new model
        client = await self._load()
        if self.client is not None:
            self.client.retire()
        self.client = client

    def retire(self) -> None:
        """End the worker when its requests have ended; the next request starts another."""
        if self.client is not None:
            self.client.retire()
            self.client = None

    async def end(self) -> None:
        """End all workers now."""
        self._is_ending = True
        await asyncio.gather(*(client.end() for client in self._clients))

    async def _start(self) -> WorkerClient:
        try:
            client = await self._load()
        except Unavailable as error:
            self._failures += 1
            self.has_loaded = False
            pause = min(2.0 ** (self._failures - 1), MAX_PAUSE_SECONDS)
            self._reason, self._next_start = error.message, time.monotonic() + pause
            if not self._is_ending:
                logger.error("%s", error.message)
            raise
        finally:
            self._starting = None
        self._failures, self.has_loaded = 0, True
        self.client = client
        return client

    async def _load(self) -> WorkerClient:
        """Start a process and return its client once the model is loaded."""
        process, self._process = self._process or self._spawn(), None
        self.starts += 1
        client = await WorkerClient.connect(process, self._name, self._handle_end)
        self._clients.add(client)
        await client.loaded()
        return client

    def _spawn(self) -> WorkerProcess:
        try:
            return WorkerProcess.start(self._run, self._settings, self._max_active)
        except OSError as error:  # too many processes, or too little memory
            raise Unavailable(f"{self._name} cannot be loaded: {error.strerror}.") from None

    def _handle_end(self, client: WorkerClient) -> None:
        """Start another worker in the place of one that has crashed."""
        self._clients.discard(client)
        if client is not self.client:
            return
        self.client = None
        if not self._is_ending and time.monotonic() - client.started > STABLE_SECONDS:
            self.start()


def _retrieve(task: "asyncio.Task[WorkerClient]") -> None:
    """Take the error of a start that no request awaits."""
    if not task.cancelled():
        task.exception()
