"""Models whose requests are computed by replicas, in other processes or on other machines.

A result is a function of the arguments, the seed among them. So a request whose replica dies is
sent to another one: it gives the same result, and of a stream the same events, of which those that
the client has are skipped.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from regard.serving.errors import TimedOut, Unavailable, error_of_status
from regard.serving.models import Models
from regard.serving.served_model import ServedModel
from regard.serving.settings import ServerSettings
from regard.serving.text_limits import check_texts
from regard.serving.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # a request that kills replicas is not sent to all of them
RETRY_SECONDS = 5.0  # after which a replica has been started in the place of one that has died
SEEDS = 1 << 63


class ReplicaLost(Exception):  # noqa: N818  (another replica answers)
    """A replica has died before the end of its answer."""


class Replicas(Protocol):
    """Whatever computes requests elsewhere."""

    def stream(
        self, name: str, task: str, arguments: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield {"event": …} for each event of a request, or {"error": …}.

        Raises:
            ReplicaLost: The replica has died.
        """
        ...


class ReplicatedModels(Models):
    """Models by name, computed by replicas.

    Args:
        settings: Of the server; the limits are those of all replicas together.
        replicas: The replicas.
    """

    def __init__(self, settings: ServerSettings, replicas: Replicas) -> None:
        self._replicas = replicas
        super().__init__(settings)

    @property
    def is_ready(self) -> bool:
        """True if requests are accepted: there are replicas, or they are being started."""
        return not self._is_ending

    def start(self) -> None:
        """Do nothing: the replicas load the models."""

    def _new_model(
        self, folder: Path, name: str, process: WorkerProcess | None
    ) -> "ReplicatedModel":
        return ReplicatedModel(folder, name, self._settings, self._replicas)


class ReplicatedModel(ServedModel):
    """One model, computed by replicas.

    Args:
        run: The run folder.
        name: Name of the model.
        settings: Of the server.
        replicas: The replicas.
    """

    def __init__(self, run: Path, name: str, settings: ServerSettings, replicas: Replicas) -> None:
        super().__init__(run, name, settings)
        self._replicas = replicas

    async def stream(self, task: str, arguments: BaseModel) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a request; the last one is its result.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        data = _with_seed(arguments).model_dump(mode="json")
        check_texts(data)
        deadline = time.monotonic() + self._settings.max_seconds
        sent = 0
        with self.queue.place():
            for _ in range(ATTEMPTS):
                try:
                    async with aclosing(self._attempt(task, data, sent, deadline)) as events:
                        async for event in events:
                            sent += 1
                            yield event
                    return
                except ReplicaLost:
                    logger.warning(
                        "%s: a replica has died; its requests are sent again.", self.info.name
                    )
        raise Unavailable(
            f"{ATTEMPTS} replicas have died with this request; send it later, or another one.",
            retry_after=RETRY_SECONDS,
        )

    async def _attempt(
        self, task: str, data: dict[str, Any], skipped: int, deadline: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events that a replica answers with, without the first ones."""
        async with aclosing(self._replicas.stream(self.info.name, task, data)) as answers:
            while (answer := await _next_before(deadline, answers)) is not None:
                if "error" in answer:
                    raise error_of_status(**answer["error"])
                if skipped:
                    skipped -= 1
                else:
                    yield answer["event"]


async def _next_before(
    deadline: float, answers: AsyncGenerator[dict[str, Any], None]
) -> dict[str, Any] | None:
    """Return the next answer, or None after the last; raise TimedOut at the deadline."""
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await anext(answers, None)
    except TimeoutError:
        raise TimedOut("the request took too long; ask for less at once.") from None


def _with_seed(arguments: BaseModel) -> BaseModel:
    """Return the arguments with a seed, so that every replica draws the same."""
    if getattr(arguments, "seed", 0) is not None:
        return arguments
    return arguments.model_copy(update={"seed": secrets.randbelow(SEEDS)})
