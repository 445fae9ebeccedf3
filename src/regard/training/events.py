"""What happens while training, told by the loop to whoever reports it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """An update was made."""

    step: int
    loss: float  # per token
    tokens: int  # predicted
    grad_norm: float  # of the gradient
    seconds: float  # since training began
    progress: float  # from 0 to 1
    applied: bool
    aside: float = 0.0  # what parts of the model added to the loss, per token
    counts: Mapping[str, int] = field(default_factory=dict)  # what they counted, by name


@dataclass(frozen=True)
class Evaluated:
    """The model was judged on the dev data."""

    step: int
    scores: dict[str, float]
    best: bool
    seconds: float


@dataclass(frozen=True)
class Saved:
    step: int
    place: Path


@dataclass(frozen=True)
class Ended:
    """Training is over, and why: finished, stopped early, or interrupted."""

    reason: str
    finished: bool


Event = Step | Evaluated | Saved | Ended
