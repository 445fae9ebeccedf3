"""Worker process of one model: `python -m regard.serving.worker FD RUN BITS MAX_ACTIVE MAX_TOKENS`.

FD is a Unix socket that the server listens to; `messages.py` describes the messages. The main
thread reads them, `MAX_ACTIVE` threads run tasks, and one thread reports on all of them. The
process ends when the socket does: at once, whatever the threads compute.
"""

import faulthandler
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from regard.errors import RegardError
from regard.serving.errors import InternalError, ServingError, Unprocessable
from regard.serving.messages import Decoder, Message, encode
from regard.serving.process_memory import process_memory
from regard.serving.tasks.base import Canceled, TaskContext, task
from regard.serving.tracebacks import traceback_without_text

REPORT_SECONDS = 1.0
RECEIVED = 1 << 18  # bytes at once
SWITCH_SECONDS = 0.0005  # between threads: the scheduler waits for the others after every step
LOCK_SECONDS = 0.05  # between checks of a request that waits for the model


class Sharing(Protocol):
    """A model whose decoding steps the requests of several threads share."""

    def stats(self) -> dict[str, Any]: ...


class Outbox:
    """Messages to the server, whole ones from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message; one that the server no longer reads is dropped."""
        line = encode(message)
        with self._lock, suppress(OSError):  # the main thread ends the process
            self._connection.sendall(line)


class Worker:
    """Requests to one predictor.

    Args:
        predictor: The loaded model.
        sharing: The model's shared decoding; None if it computes one request at a time.
        outbox: Messages to the server.
        max_active: Number of requests that are computed at the same time.
        max_tokens: Maximum number of tokens that a request may generate.
    """

    def __init__(
        self,
        predictor: Any,
        sharing: Sharing | None,
        outbox: Outbox,
        max_active: int,
        max_tokens: int,
    ) -> None:
        self._predictor, self._sharing, self._outbox = predictor, sharing, outbox
        self._max_tokens = max_tokens
        self._model_lock = threading.Lock()
        self._contexts: dict[int, TaskContext] = {}  # of all requests
        self._running: set[int] = set()  # numbers of those that a thread computes
        self._pool = ThreadPoolExecutor(max_active, "task")

    def receive(self, message: Message) -> None:
        """Start a request, or cancel one."""
        if "cancel" in message:
            if context := self._contexts.get(message["cancel"]):
                context.cancel()
            return
        number = message["id"]
        send = partial(self._send_event, number)
        context = TaskContext(send, message["seconds"], self._max_tokens)
        self._contexts[number] = context
        self._pool.submit(self._answer, message, context)

    def stats(self) -> dict[str, Any]:
        """Return the state of the worker, as plain data."""
        active = len(self._running)
        return {
            "active": active,
            "waiting": max(0, len(self._contexts) - active),
            "memory": process_memory(),
            **(self._sharing.stats() if self._sharing else {}),
        }

    def _send_event(self, number: int, event: dict[str, Any]) -> None:
        self._outbox.send({"id": number, "event": event})

    def _answer(self, message: Message, context: TaskContext) -> None:
        number = message["id"]
        self._running.add(number)
        try:
            answer = self._run(message["task"], message["arguments"], context)
        except Canceled:
            answer = {}
        finally:
            self._running.discard(number)
            del self._contexts[number]
        if "traceback" in answer:  # the log names the request
            answer["request_id"] = message.get("request_id")
        if answer:
            self._outbox.send({"id": number, **answer})

    def _run(self, name: str, arguments: dict[str, Any], context: TaskContext) -> Message:
        """Return the part of a message that answers a request."""
        try:
            context.check()  # it may have been canceled while it waited for a thread
            module = task(name)
            with context, self._model(context):
                result = module.run(
                    self._predictor, module.Arguments.model_validate(arguments), context
                )
            return {"result": result.model_dump()}
        except Canceled:
            raise
        except ServingError as error:
            return {"error": error.to_message()}
        except RegardError as error:
            return {"error": Unprocessable(str(error)).to_message()}
        except Exception as error:
            bug = InternalError(f"{name} failed in the model's process ({type(error).__name__}).")
            return {"error": bug.to_message(), "traceback": traceback_without_text(error)}

    @contextmanager
    def _model(self, context: TaskContext) -> Iterator[None]:
        """Hold the model, unless requests share it."""
        if self._sharing is not None:
            yield
            return
        while not self._model_lock.acquire(timeout=LOCK_SECONDS):
            context.check()
        try:
            yield
        finally:
            self._model_lock.release()


def main() -> None:
    """Load a model and serve it until the server closes the socket."""
    _prepare_process()
    descriptor, run, bits, max_active, max_tokens = sys.argv[1:]
    connection = socket.socket(fileno=int(descriptor))
    outbox = Outbox(connection)
    start = time.monotonic()
    try:
        predictor, sharing = _load(Path(run), int(bits))
    except Exception as error:
        is_bug = not isinstance(error, RegardError | MemoryError)
        outbox.send({"failed": f"{type(error).__name__}: {error}" if is_bug else str(error)})
        if is_bug:
            traceback.print_exc()
        sys.exit(1)
    worker = Worker(predictor, sharing, outbox, int(max_active), int(max_tokens))
    outbox.send({"ready": {"seconds": time.monotonic() - start}})
    threading.Thread(target=_report, args=(worker, outbox), daemon=True).start()
    _receive_all(connection, worker)
    os._exit(0)  # threads that compute would keep the process


def _prepare_process() -> None:
    """Leave signals to the server; change threads often, search for garbage rarely."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(10_000)


def _load(run: Path, bits: int) -> tuple[Any, Sharing | None]:
    from regard.loading import load
    from regard.serving.batching.shared_model import share
    from regard.serving.cancelable_tokenizer import make_cancelable

    predictor = load(run, bits)
    make_cancelable(predictor)
    sharing = share(predictor)
    gc.collect()
    gc.freeze()  # what is loaded stays
    return predictor, sharing


def _receive_all(connection: socket.socket, worker: Worker) -> None:
    """Pass messages on until the server closes the socket."""
    decoder = Decoder()
    with suppress(ConnectionError):
        while data := connection.recv(RECEIVED):
            for message in decoder.feed(data):
                worker.receive(message)


def _report(worker: Worker, outbox: Outbox) -> None:
    while True:
        outbox.send({"stats": worker.stats()})
        time.sleep(REPORT_SECONDS)


if __name__ == "__main__":
    main()
