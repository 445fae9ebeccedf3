"""The interface of tasks, and the context that each request runs in.

A task is a module of this package with

    class Arguments(BaseModel, extra="forbid")   what a request asks for
    class Result(BaseModel)                      what answers it
    PREDICTORS: tuple[str, ...]                  names of the predictor classes that it takes
    run(predictor, arguments, context)           returns the Result
    observes(arguments)                          optional: True where hooks observe the torch model,
                                                 which needs a process of its own
"""

import pkgutil
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from pydantic import BaseModel

from regard.serving import tasks
from regard.serving.errors import BadRequest, TimedOut

Event = dict[str, Any]

MAX_TEXTS = 2048  # of a request
MAX_BEAM = 32

_current: ContextVar["TaskContext | None"] = ContextVar("regard.serving.context", default=None)


class Canceled(Exception):  # noqa: N818  (not an error)
    """Nobody waits for the result any more."""


class Task(Protocol):
    """A module of this package."""

    Arguments: type[BaseModel]
    Result: type[BaseModel]
    PREDICTORS: tuple[str, ...]

    def run(self, predictor: Any, arguments: Any, context: "TaskContext") -> BaseModel: ...


class TaskContext:
    """One request in its worker: its events, its end, and its limits.

    Args:
        send: Sends an event to the client.
        seconds: Time that is left for the request.
        max_tokens: Maximum number of tokens that a request may generate.
    """

    def __init__(
        self,
        send: Callable[[Event], None] = lambda _: None,
        seconds: float = float("inf"),
        max_tokens: int = 1 << 31,
    ) -> None:
        self._send = send
        self._deadline = time.monotonic() + seconds
        self.canceled = False
        self.max_tokens = max_tokens

    def emit(self, event: Event) -> None:
        """Send an event to the client.

        Raises:
            Canceled: The client is gone.
            TimedOut: The time of the request is over.
        """
        self.check()
        self._send(event)

    def check(self) -> None:
        """Raise an exception if the request must end; called at every decoding step.

        Raises:
            Canceled: The client is gone.
            TimedOut: The time of the request is over.
        """
        if self.canceled:
            raise Canceled
        if time.monotonic() > self._deadline:
            raise TimedOut("the request took too long; ask for less at once.")

    def check_tokens(self, tokens: int, param: str = "max_tokens") -> None:
        """Raise BadRequest where a request asks for more tokens than one may generate."""
        if tokens > self.max_tokens:
            raise BadRequest(
                f"{param}: {tokens:,} tokens are more than the {self.max_tokens:,} that this "
                f"server generates for a request.",
                param,
            )

    def cancel(self) -> None:
        """End the request at its next decoding step; called by another thread."""
        self.canceled = True

    def __enter__(self) -> "TaskContext":
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current_context() -> TaskContext | None:
    """Return the context of the request that this thread computes, if it computes one."""
    return _current.get()


def current_check() -> Callable[[], None]:
    """Return the check of the request that this thread computes."""
    context = current_context()
    return context.check if context is not None else lambda: None


@cache
def task_names() -> tuple[str, ...]:
    """Return the names of all tasks."""
    names = (module.name for module in pkgutil.iter_modules(tasks.__path__))
    return tuple(sorted(name for name in names if name != "base" and not name.startswith("_")))


def task(name: str) -> Task:
    """Return the task of a name, which must be one of `task_names`."""
    if name not in task_names():
        raise KeyError(name)
    return cast("Task", import_module(f"{tasks.__name__}.{name}"))


def observes(name: str, arguments: BaseModel) -> bool:
    """Return whether a request observes the torch model, in a process of its own."""
    return bool(getattr(task(name), "observes", lambda _: False)(arguments))


@cache
def tasks_of(predictor: str) -> tuple[str, ...]:
    """Return the names of the tasks of a predictor class."""
    return tuple(name for name in task_names() if predictor in task(name).PREDICTORS)
