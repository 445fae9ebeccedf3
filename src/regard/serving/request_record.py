"""Facts about the request that is answered, for the access log, the metrics and the trace.

The middleware makes the record of a request; `Models` adds the model and the tokens.
"""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

UNMATCHED = "unmatched"  # route of a path that does not exist

# Fields of results that count tokens.
INPUT_TOKENS = ("input_tokens", "prompt_tokens")
OUTPUT_TOKENS = ("output_tokens", "completion_tokens")


@dataclass
class RequestRecord:
    """One request, from its head to the end of its answer."""

    id: str = ""
    method: str = ""
    route: str = UNMATCHED  # as a template: /v1/models/{name}
    client: str = ""  # owner of its key
    model: str = ""
    task: str = ""
    status: int = 0  # 0: the client was gone before the answer began
    is_complete: bool = False  # the whole answer was sent
    input_tokens: int = 0
    output_tokens: int = 0
    text: list[Any] = field(default_factory=list)  # arguments and results, with --log-text only
    started: float = field(default_factory=time.perf_counter)
    ended: float = 0.0
    first_event: float = 0.0  # of a stream; 0: there was none
    last_event: float = 0.0

    @property
    def seconds(self) -> float:
        """Time from the head of the request to the end of the answer."""
        return self.ended - self.started

    @property
    def seconds_to_first_token(self) -> float | None:
        """Time until the first piece of a streamed answer."""
        return self.first_event - self.started if self.first_event else None

    @property
    def seconds_per_output_token(self) -> float | None:
        """Mean time between the tokens of a streamed answer."""
        if self.output_tokens < 2 or self.last_event == self.first_event:
            return None
        return (self.last_event - self.first_event) / (self.output_tokens - 1)

    def add_event(self) -> None:
        """Note that a piece of a streamed answer came."""
        self.last_event = time.perf_counter()
        self.first_event = self.first_event or self.last_event

    def add_result(self, result: Mapping[str, Any]) -> None:
        """Add the tokens of a task's result; a request may run several tasks."""
        self.input_tokens += count_tokens(result, INPUT_TOKENS)
        self.output_tokens += count_tokens(result, OUTPUT_TOKENS)


def count_tokens(result: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """Return the sum of the fields of these names, of a result and of the items of its lists."""
    items = [item for value in result.values() if isinstance(value, list) for item in value]
    rows = [result, *(item for item in items if isinstance(item, Mapping))]
    counts = [row.get(name) for row in rows for name in names]
    return sum(count for count in counts if isinstance(count, int))


_current: ContextVar[RequestRecord | None] = ContextVar("regard.serving.record", default=None)


def current_record() -> RequestRecord:
    """Return the record of the request that this code answers; outside of one, a new record."""
    return _current.get() or RequestRecord()


def begin_record(record: RequestRecord) -> None:
    """Make a record the current one, for this asyncio task and those that it starts."""
    _current.set(record)
