"""Models of a server, by name."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from regard.errors import ConfigError
from regard.pretrained import MODELS, is_pretrained, located
from regard.serving.errors import NotFound, NotSupported, Unavailable
from regard.serving.model_info import ModelInfo
from regard.serving.request_record import current_record
from regard.serving.served_model import ServedModel
from regard.serving.settings import ServerSettings
from regard.serving.tracing import task_span
from regard.serving.worker_process import WorkerProcess

__all__ = ["ModelInfo", "Models"]

logger = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
DRAIN_SECONDS = 0.02  # between looks at the requests that have not ended


@dataclass(frozen=True)
class NamedRun:
    """A run folder, and the target language that its name chooses."""

    folder: Path
    target: str | None = None


class Models:
    """Served models by name: their descriptions, and requests to their workers.

    Args:
        settings: Of the server.
        process: The worker of the first model, if it has been started before.

    Raises:
        ConfigError: Two models have the same name.
        RunError: A folder holds no run, a damaged one, or one of an unknown task.
    """

    def __init__(self, settings: ServerSettings, process: WorkerProcess | None = None) -> None:
        self._settings = settings
        self._runs = named_runs(settings.runs)
        self._served: dict[Path, ServedModel] = {}
        self._infos: dict[str, tuple[ModelInfo, ModelInfo]] = {}  # of the folder, and by this name
        for name, run in self._runs.items():
            if run.folder not in self._served:
                self._served[run.folder] = self._new_model(run.folder, name, process)
                process = None
        self._watching: asyncio.Task[None] | None = None
        self._is_ending = False

    def list(self) -> Sequence[ModelInfo]:
        """Return the descriptions of all models, in the order that they were given in."""
        return [self.get(name) for name in self._runs]

    def get(self, name: str) -> ModelInfo:
        """Return the description of a model.

        Raises:
            NotFound: There is no model of this name.
        """
        info = self._find(name).info
        of_folder, named = self._infos.get(name, (None, info))
        if of_folder is not info:  # not known yet, or of a model that was replaced
            named = replace(info, name=name, target=self._runs[name].target)
            self._infos[name] = info, named
        return named

    def for_task(self, task: str, name: str | None = None) -> ModelInfo:
        """Return the model of a name, or the first one for a task if there is none of the name.

        Raises:
            NotSupported: The model of this name does not do the task.
            NotFound: No model does the task.
        """
        if name in self._runs:
            return _require_task(self.get(name), task)
        for info in self.list():
            if task in info.tasks:
                return info
        raise NotFound(f"no model of this server does the task {task}.", "model")

    async def run(self, name: str, task: str, arguments: BaseModel) -> dict[str, Any]:
        """Return the result of a task, as plain data.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        async with aclosing(self.stream(name, task, arguments)) as events:
            results = [event["result"] async for event in events if "result" in event]
        result: dict[str, Any] = results[-1]
        return result

    async def stream(
        self, name: str, task: str, arguments: BaseModel
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a task as they come; the last one is {"result": …}.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        if self._is_ending:
            raise Unavailable("the server is ending; send the request again.", retry_after=1.0)
        served = self._find(name)
        _require_task(served.info, task)
        arguments = _with_target(arguments, self._runs[name].target)
        record = current_record()
        record.model, record.task = name, task
        self._log_text(arguments.model_dump(mode="json", exclude_unset=True))
        with task_span(name, task):
            async with aclosing(served.stream(task, arguments)) as events:
                async for event in events:
                    if "result" in event:
                        record.add_result(event["result"])
                        self._log_text(event["result"])
                    else:
                        record.add_event()
                    yield event

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return the states of the models' queues and workers, by name."""
        return {served.info.name: served.stats for served in self._served.values()}

    @property
    def is_ready(self) -> bool:
        """True if requests are accepted and the first model can be loaded."""
        first, *_ = self._served.values()
        return not self._is_ending and first.computing.has_loaded

    def start(self) -> None:
        """Load the first model, and watch over the memory of all of them."""
        first, *_ = self._served.values()
        first.computing.start()
        self._watching = asyncio.create_task(self._watch())

    def unload(self, name: str) -> None:
        """End the workers of a model when its requests have ended; the next one starts another."""
        self._find(name).unload()

    async def drain(self) -> None:
        """Refuse new requests; wait until the accepted ones have ended, or their time is over."""
        self._is_ending = True
        deadline = time.monotonic() + self._settings.max_seconds
        while time.monotonic() < deadline:
            if not any(served.queue.taken for served in self._served.values()):
                break
            await asyncio.sleep(DRAIN_SECONDS)

    async def end(self) -> None:
        """End all workers now."""
        self._is_ending = True
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*(served.end() for served in self._served.values()))

    def _new_model(self, folder: Path, name: str, process: WorkerProcess | None) -> ServedModel:
        return ServedModel(folder, name, self._settings, process)

    def _find(self, name: str) -> ServedModel:
        if name not in self._runs:
            known = ", ".join(self._runs)
            raise NotFound(f"there is no model of this name; the models are {known}.", "model")
        return self._served[self._runs[name].folder]

    def _log_text(self, data: Any) -> None:
        if self._settings.log_text:
            current_record().text.append(data)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for served in self._served.values():
                served.end_resting_observer()
            if self._settings.memory is not None:
                self._unload_beyond(self._settings.memory)

    def _unload_beyond(self, memory: int) -> None:
        """Unload models that rest, the least recently used first, until the others fit.

        The model that was used last stays, even alone beyond the limit.
        """
        loaded = [served for served in self._served.values() if served.memory]
        loaded.sort(key=lambda served: served.queue.last_used)
        excess = sum(served.memory for served in loaded) - memory
        for served in loaded[:-1]:
            if excess > 0 and not served.queue.taken:
                excess -= served.memory
                logger.info("%s: unloaded, for other models need its memory.", served.info.name)
                served.unload()


def named_runs(runs: Sequence[Path]) -> dict[str, NamedRun]:
    """Return the runs by the names of their models.

    The name is the last part of the folder. A pretrained model has all of its names, those that
    were not given at the end.

    Raises:
        ConfigError: Two runs have the same name.
    """
    named: dict[str, NamedRun] = {}
    for run in runs:
        name = (run.resolve() if run.name == ".." else run.absolute()).name
        if name in named:
            raise ConfigError(f"{run}: another model is named {name} too; rename the folder.")
        named[name] = NamedRun(located(run), MODELS[name][1] if is_pretrained(run) else None)
    folders = {run.folder for run in named.values()}
    for name, (_, target) in MODELS.items():
        folder = located(Path(name))
        if folder in folders:
            named.setdefault(name, NamedRun(folder, target))
    return named


def _require_task(info: ModelInfo, task: str) -> ModelInfo:
    if task not in info.tasks:
        raise NotSupported(
            f"{info.name} is a model for {info.task}, which does not do the task {task}.", "model"
        )
    return info


def _with_target(arguments: BaseModel, target: str | None) -> BaseModel:
    """Return the arguments with the target language that a name chooses, if they name none."""
    if target is None or getattr(arguments, "to", target) is not None:
        return arguments
    if getattr(arguments, "source", None) == target:
        return arguments
    return arguments.model_copy(update={"to": target})
