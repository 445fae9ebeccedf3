"""Auxiliary losses: a layer can add a term to the training loss, and count events.

    with collect_aux_losses() as terms:
        loss = objective(model, batch)
    loss = loss + batch.num_targets · Σ term.loss

Models return logits, never losses. A layer that needs a loss term of its own (the load balancing of
a mixture of experts) adds it here while training collects; outside of `collect_aux_losses` it is
discarded. Each thread collects its own terms, because several threads may run one model at once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor


class AuxLoss(NamedTuple):
    """An auxiliary loss term of one layer, and the counts that are reported with it."""

    loss: Tensor  # added to the loss of each target token
    counts: Mapping[str, int]  # by name; counts of all layers are summed


_collector: ContextVar[list[AuxLoss] | None] = ContextVar("collector", default=None)


@contextmanager
def collect_aux_losses() -> Iterator[list[AuxLoss]]:
    """Collect the auxiliary losses of this thread in a list, in the order of the calls."""
    terms: list[AuxLoss] = []
    token = _collector.set(terms)
    try:
        yield terms
    finally:
        _collector.reset(token)


def add_aux_loss(term: AuxLoss) -> None:
    """Add a term if somebody collects, otherwise discard it."""
    terms = _collector.get()
    if terms is not None:
        terms.append(term)
