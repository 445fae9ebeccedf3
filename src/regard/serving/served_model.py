"""One served model: its queue, its workers, and its reload when the run folder is replaced."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from regard.errors import RegardError
from regard.serving.errors import TimedOut, Unavailable
from regard.serving.model_info import read_model_info
from regard.serving.request_queue import RequestQueue
from regard.serving.settings import ServerSettings
from regard.serving.tasks.base import observes
from regard.serving.text_limits import check_texts
from regard.serving.worker_client import WorkerClient
from regard.serving.worker_process import WorkerProcess, model_version
from regard.serving.worker_slot import WorkerSlot

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0  # between looks at the run folder
OBSERVER_SECONDS = 300.0  # without a request, after which the worker with torch is ended


class ServedModel:
    """A model that is loaded when it is first needed.

    Args:
        run: The run folder.
        name: Name of the model.
        settings: Of the server.
        process: Its worker, if it has been started before.

    Raises:
        RunError: The folder holds no run, a damaged one, or one of an unknown task.
    """

    def __init__(
        self, run: Path, name: str, settings: ServerSettings, process: WorkerProcess | None = None
    ) -> None:
        self._run, self._settings = run, settings
        self._version = process.version if process else model_version(run)
        self._next_check = time.monotonic() + CHECK_SECONDS
        self._reloading: asyncio.Task[None] | None = None
        self._observed = 0.0  # time of the last request that observed
        self.info = read_model_info(run, name)
        self.queue = RequestQueue(settings.max_active + settings.max_waiting)
        self.computing = WorkerSlot(run, name, settings, settings.max_active, process)
        # Hooks observe a model of their own, one request at a time.
        self.observing = WorkerSlot(run, name, settings, max_active=1)

    @property
    def memory(self) -> int:
        """Bytes of memory of the workers."""
        return sum(slot.memory for slot in self._slots)

    @property
    def stats(self) -> dict[str, Any]:
        """State of the queue and of the worker that computes, as plain data."""
        client = self.computing.client
        reported = client.stats if client is not None else {}
        active = min(reported.get("active", 0), self.queue.taken)
        return {
            **reported,
            "active": active,
            "waiting": self.queue.taken - active,
            "memory": self.memory,
            "restarts": max(0, self.computing.starts - 1),
        }

    async def stream(self, task: str, arguments: BaseModel) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a request; the last one is its result.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        data = arguments.model_dump(mode="json")
        check_texts(data)
        deadline = time.monotonic() + self._settings.max_seconds
        with self.queue.place():
            self._reload_if_replaced()
            worker = await self._loaded_worker(self._slot(task, arguments))
            seconds = deadline - time.monotonic()
            async with aclosing(worker.stream(task, data, seconds)) as events:
                async for event in events:
                    yield event

    def end_resting_observer(self) -> None:
        """End the worker that has imported torch if nobody has used it for minutes."""
        client = self.observing.client
        rested = time.monotonic() - self._observed
        if client is not None and client.is_idle and rested > OBSERVER_SECONDS:
            self.observing.retire()

    def unload(self) -> None:
        """End the workers; the next request starts another."""
        for slot in self._slots:
            slot.retire()

    async def end(self) -> None:
        """End the workers now."""
        if self._reloading is not None:
            self._reloading.cancel()
        await asyncio.gather(*(slot.end() for slot in self._slots))

    @property
    def _slots(self) -> tuple[WorkerSlot, WorkerSlot]:
        return self.computing, self.observing

    def _slot(self, task: str, arguments: BaseModel) -> WorkerSlot:
        if not observes(task, arguments):
            return self.computing
        self._observed = time.monotonic()
        return self.observing

    async def _loaded_worker(self, slot: WorkerSlot) -> WorkerClient:
        try:
            async with asyncio.timeout(self._settings.max_seconds):
                return await slot.worker()
        except TimeoutError:
            raise TimedOut("the model was not loaded in time; send the request again.") from None

    def _reload_if_replaced(self) -> None:
        """Load the model that has been put in the place of this one, if one has been."""
        now = time.monotonic()
        if now < self._next_check or (self._reloading and not self._reloading.done()):
            return
        self._next_check = now + CHECK_SECONDS
        version = model_version(self._run)
        if version not in (None, self._version):
            self._version = version  # one that is damaged is not tried again
            self._reloading = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        name = self.info.name
        try:
            info = read_model_info(self._run, name)
            await self.computing.replace()
        except (RegardError, Unavailable) as error:
            logger.error("%s: the new model is not used, the earlier one is kept: %s", name, error)
            return
        self.info = info
        self.observing.retire()
        logger.info("%s: the new model is in use.", name)
