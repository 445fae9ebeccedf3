"""The server's end of one worker: requests to it, and their events."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from itertools import count
from typing import Any, cast

from regard.serving.errors import ServingError, TimedOut, Unavailable, error_of_status
from regard.serving.messages import DamagedMessageError, Decoder, Message, encode
from regard.serving.request_record import current_record
from regard.serving.worker_process import Version, WorkerProcess

logger = logging.getLogger(__name__)

RESTART_SECONDS = 1.0  # after which a request to a worker that has crashed may be sent again

TIMED_OUT = TimedOut("the request took too long; ask for less at once.").to_message()


class WorkerClient(asyncio.Protocol):
    """A connected worker.

    Args:
        worker: Its process.
        name: Name of the model, for messages.
        on_end: Called when the worker has ended, whoever ended it.
    """

    def __init__(
        self, worker: WorkerProcess, name: str, on_end: Callable[["WorkerClient"], None]
    ) -> None:
        self._worker, self._name, self._on_end = worker, name, on_end
        self.stats: dict[str, Any] = {}  # as the worker has reported them last
        self.started = time.monotonic()
        self.is_ended = False
        loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[str] = loop.create_future()
        self._failure = ""  # reason why the model could not be loaded
        self._decoder = Decoder()
        self._numbers = count(1)
        self._replies: dict[int, asyncio.Queue[Message]] = {}  # of requests without a result
        self._is_retired = False

    @classmethod
    async def connect(
        cls, worker: WorkerProcess, name: str, on_end: Callable[["WorkerClient"], None]
    ) -> "WorkerClient":
        """Connect to a worker that has been started; it may still load its model."""
        client = cls(worker, name, on_end)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: client, sock=worker.connection)
        return client

    @property
    def pid(self) -> int:
        return self._worker.process.pid

    @property
    def version(self) -> Version | None:
        """Version of the model that the worker has."""
        return self._worker.version

    @property
    def is_idle(self) -> bool:
        return not self._replies

    async def loaded(self) -> None:
        """Wait until the model is loaded.

        Raises:
            Unavailable: It cannot be loaded.
        """
        await asyncio.shield(self._loaded)

    async def stream(
        self, task: str, arguments: dict[str, Any], seconds: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a request; the last one is its result.

        Args:
            task: Name of the task.
            arguments: Its arguments, as plain data.
            seconds: Time after which the request is canceled.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        if self.is_ended:
            raise self._crashed()
        number = next(self._numbers)
        replies: asyncio.Queue[Message] = asyncio.Queue()
        self._replies[number] = replies
        timer = asyncio.get_running_loop().call_later(
            seconds, replies.put_nowait, {"error": TIMED_OUT}
        )
        request = {"id": number, "task": task, "arguments": arguments, "seconds": seconds}
        request["request_id"] = current_record().id
        try:
            self._send(request)
            while "event" in (reply := await replies.get()):
                yield reply["event"]
            yield {"result": self._result(reply)}
        finally:
            timer.cancel()
            if self._replies.pop(number, None) is not None:
                self._send({"cancel": number})
            self._end_if_retired()

    def retire(self) -> None:
        """End the worker when its last request has ended."""
        self._is_retired = True
        self._end_if_retired()

    async def end(self) -> None:
        """End the worker now, and wait until it has ended."""
        self._is_retired = True
        self._transport.abort()
        await asyncio.shield(self._exited)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio calls it)."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Deliver messages (asyncio calls it)."""
        try:
            for message in self._decoder.feed(data):
                self._receive(message)
        except DamagedMessageError as error:
            logger.error("%s: %s The worker is ended.", self._name, error)
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests (asyncio calls it): the worker has ended."""
        self.is_ended = True
        for replies in self._replies.values():
            replies.put_nowait({"error": self._crashed().to_message()})
        self._replies.clear()
        self._watching = asyncio.create_task(self._await_exit())

    async def _await_exit(self) -> None:
        ending = await asyncio.to_thread(self._worker.end)
        self._exited.set_result(ending)
        if not self._loaded.done():
            reason = self._failure or f"its process has ended ({ending})."
            self._loaded.set_exception(Unavailable(f"{self._name} cannot be loaded: {reason}"))
            self._loaded.exception()  # it may be that nobody waits
        elif not self._is_retired:
            logger.error("%s: its process has ended (%s).", self._name, ending)
        self._on_end(self)

    def _receive(self, message: Message) -> None:
        if "id" in message:
            self._deliver(message["id"], message)
        elif "stats" in message:
            self.stats = message["stats"]
        elif "ready" in message:
            self._loaded.set_result(None)
        elif "failed" in message:
            self._failure = message["failed"]

    def _deliver(self, number: int, message: Message) -> None:
        replies = self._replies.get(number)
        if "event" not in message:
            self._replies.pop(number, None)
        if "traceback" in message:
            logger.error(
                "%s: a bug in Regard, in the request %s:\n%s",
                *(self._name, message.get("request_id"), message["traceback"]),
            )
        if replies is not None:  # otherwise the request was canceled
            replies.put_nowait(message)

    def _send(self, message: Message) -> None:
        with suppress(RuntimeError):  # uvloop's, if the transport is closed
            self._transport.write(encode(message))

    def _result(self, reply: Message) -> dict[str, Any]:
        if "error" in reply:
            raise error_of_status(**reply["error"])
        return cast("dict[str, Any]", reply["result"])

    def _crashed(self) -> ServingError:
        return Unavailable(
            f"the process of {self._name} has ended and is started again; send the request again.",
            retry_after=RESTART_SECONDS,
        )

    def _end_if_retired(self) -> None:
        if self._is_retired and self.is_idle:
            self._transport.close()
