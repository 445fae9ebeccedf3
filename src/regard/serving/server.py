"""The server process: asyncio, uvicorn and the application, until a signal ends it."""

import asyncio
import gc
import logging
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
import uvloop
from starlette.types import ASGIApp

from regard.serving import tracing
from regard.serving.api.operations import metrics_router
from regard.serving.app import application
from regard.serving.connections import uvicorn_options
from regard.serving.metrics import Metrics
from regard.serving.middleware import protected
from regard.serving.models import Models
from regard.serving.settings import ServerSettings

logger = logging.getLogger(__name__)

SECONDS_TO_SEND = 5  # the last answers, once they are computed
MAX_FILES = 1 << 16  # connections among them


def protected_application(models: Models, settings: ServerSettings) -> ASGIApp:
    """Return the application of some models with its metrics and middleware.

    Raises:
        DataError: The file of keys cannot be read.
    """
    metrics = Metrics()
    metrics.watch_workers(models.workers)
    app = application(models, settings)
    app.include_router(metrics_router(metrics))
    return protected(app, settings, metrics)


def serve(app: ASGIApp, models: Models, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; what was accepted before is answered.

    Args:
        app: The application.
        models: Its models.
        listener: A socket that listens.
    """
    tracing.configure_from_environment()
    _raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(app, models, listener))


async def _serve(app: ASGIApp, models: Models, listener: socket.socket) -> None:
    models.start()
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=SECONDS_TO_SEND,
        **uvicorn_options(),
    )
    server = _Server(config)
    ending = _end_at_signals(server, models)
    gc.collect()
    gc.freeze()  # what is imported stays
    await server.serve(sockets=[listener])
    ending.cancel()
    await models.end()


class _Server(uvicorn.Server):
    """A server that leaves signals to `_end_at_signals`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none: uvicorn would raise them again after it has ended."""
        yield


def _end_at_signals(server: uvicorn.Server, models: Models) -> "asyncio.Task[None]":
    """End the server at SIGTERM or SIGINT, once the accepted requests are answered.

    A second signal ends it at once.
    """
    signaled = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle() -> None:
        if signaled.is_set():
            server.should_exit = server.force_exit = True
        signaled.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle)

    async def end() -> None:
        await signaled.wait()
        logger.info("ending: accepted requests are answered, new ones are refused.")
        await models.drain()
        server.should_exit = True

    return asyncio.create_task(end())


def _raise_file_limit() -> None:
    """Allow as many open files as the system does: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
