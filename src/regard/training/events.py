"""Events of training, which the loop yields to whoever writes or shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One update of the weights."""

    step: int
    loss: float  # per token
    tokens: int  # predicted
    grad_norm: float
    seconds: float  # since training began
    progress: float  # from 0 to 1
    applied: bool
    aux_loss: float = 0.0  # sum of the layers' auxiliary losses, per token
    counts: Mapping[str, int] = field(default_factory=dict)  # counted by layers, by name


@dataclass(frozen=True)
class Evaluated:
    """An evaluation on the dev data."""

    step: int
    scores: dict[str, float]
    best: bool
    seconds: float  # since training began
    duration: float = 0.0  # seconds that it took


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    step: int
    path: Path


@dataclass(frozen=True)
class Ended:
    """The end of training, with its reason: finished, stopped early, or interrupted."""

    reason: str
    finished: bool


Event = Step | Evaluated | Saved | Ended
