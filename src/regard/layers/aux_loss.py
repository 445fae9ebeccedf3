"""What a part says beside its answer, to whoever trains: a loss of its own, and what it counted.

    with listening() as asides:
        loss = objective(model, batch)
    loss = loss + batch.tokens · Σ aside.loss

Models return logits, never losses; a part with a wish of its own (experts want to be used evenly)
leaves it with the one who listens. Nobody listens but who trains, and each thread for itself:
lanes go through one model at once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor


class Aside(NamedTuple):
    loss: Tensor  # to be added for each prediction of the batch
    counts: Mapping[str, int]  # by name; those of all parts are added up


_listener: ContextVar[list[Aside] | None] = ContextVar("listener", default=None)


@contextmanager
def listening() -> Iterator[list[Aside]]:
    """Within, what parts say in this thread comes into the list, in the order of their calls."""
    heard: list[Aside] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


def say_aside(aside: Aside) -> None:
    """Heard where somebody listens."""
    heard = _listener.get()
    if heard is not None:
        heard.append(aside)
