"""Models of a server, by name."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from regard.serving.settings import ServerSettings


@dataclass(frozen=True)
class ModelInfo:
    """Description of a served model."""

    name: str  # of the folder, or fr-en or en-fr
    task: str  # of the run folder: "translation", "language-model" …
    tasks: tuple[str, ...]  # of requests: "translate", "detect" …
    directions: tuple[tuple[str, str], ...] = ()  # source and target languages of a translator
    target: str | None = None  # language that the name chooses where a request names none
    labels: tuple[str, ...] = ()  # of a classifier
    max_length: int = 0  # tokens
    created: int = 0  # seconds since 1970
    has_chat_template: bool = False


class Models:
    """Served models by name: their descriptions, and requests to their workers."""

    def __init__(self, settings: ServerSettings) -> None:
        raise NotImplementedError

    def list(self) -> list[ModelInfo]:
        """Return the descriptions of all models, in the order that they were given in."""
        raise NotImplementedError

    def get(self, name: str) -> ModelInfo:
        """Return the description of a model.

        Raises:
            NotFound: There is no model of this name.
        """
        raise NotImplementedError

    def for_task(self, task: str, name: str | None = None) -> ModelInfo:
        """Return the model of a name, or the first one for a task if there is none of the name.

        Raises:
            NotSupported: The model of this name does not do the task.
            NotFound: No model does the task.
        """
        raise NotImplementedError

    async def run(self, name: str, task: str, arguments: BaseModel) -> dict[str, Any]:
        """Return the result of a task, as plain data.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        raise NotImplementedError

    def stream(
        self, name: str, task: str, arguments: BaseModel
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a task as they come; the last one is {"result": …}.

        Raises:
            ServingError: The request was refused, failed, or took too long.
        """
        raise NotImplementedError
