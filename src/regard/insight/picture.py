"""Plain data between a model's tensors and whatever draws them.

A `Picture` is one sentence seen by one model; each of its `Panel`s is one kind of attention.
Nothing here knows about models, HTML or terminals, so any model can be drawn by any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# The ten colours of the well-known attention figures, one per head; an eleventh head starts again.
HEAD_COLOURS = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)

# More digits would double the size of a page and change nothing that an eye can see.
DECIMALS = 4


@dataclass(frozen=True)
class Panel:
    """One kind of attention in one model: who looks (queries) at whom (keys)."""

    name: str
    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: npt.NDArray[np.float32]
    """(layers, heads, queries, keys); a row sums to 1, or to 0 where nothing could be seen."""
    predicts: tuple[str, ...] = ()
    """What the model said after each query; empty where it says nothing."""
    causal: bool = False

    def __post_init__(self) -> None:
        # A wrong shape would surface much later, as a blank page: better to say it here.
        words = (len(self.queries), len(self.keys))
        if self.weights.ndim != 4 or self.weights.shape[2:] != words:
            raise ValueError(
                f"panel {self.name!r}: weights of shape {self.weights.shape} do not fit "
                f"(layers, heads, {words[0]} queries, {words[1]} keys)"
            )
        if 0 in self.weights.shape[:2]:
            raise ValueError(f"panel {self.name!r}: there must be at least one layer and one head")
        if not np.isfinite(self.weights).all():
            raise ValueError(f"panel {self.name!r}: weights must be finite numbers")
        if self.predicts and len(self.predicts) != len(self.queries):
            raise ValueError(
                f"panel {self.name!r}: {len(self.predicts)} predictions "
                f"for {len(self.queries)} queries"
            )

    @property
    def layers(self) -> int:
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        return int(self.weights.shape[1])

    def to_json(self) -> dict[str, Any]:
        """Return the panel as plain dicts, lists, strings and numbers."""
        # Rounding in float32 would come back as 0.8122999668: round what Python will print.
        rounded = np.round(self.weights.astype(np.float64), DECIMALS)
        return {
            "name": self.name,
            "title": self.title,
            "queries": list(self.queries),
            "keys": list(self.keys),
            "weights": rounded.tolist(),
            "predicts": list(self.predicts),
            "causal": self.causal,
        }


@dataclass(frozen=True)
class Picture:
    """One sentence as one model saw it."""

    title: str
    caption: str
    source: str
    output: str
    panels: tuple[Panel, ...]

    def __post_init__(self) -> None:
        names = [panel.name for panel in self.panels]
        if len(set(names)) != len(names):
            raise ValueError(f"panels need names of their own, got {', '.join(names)}")

    def panel(self, name: str) -> Panel:
        """Return the panel of that name."""
        for panel in self.panels:
            if panel.name == name:
                return panel
        known = ", ".join(panel.name for panel in self.panels) or "none"
        raise LookupError(f"no panel is named {name!r}; there are: {known}")

    def to_json(self) -> dict[str, Any]:
        """Return the picture as plain dicts, lists, strings and numbers."""
        return {
            "title": self.title,
            "caption": self.caption,
            "source": self.source,
            "output": self.output,
            "colours": list(HEAD_COLOURS),
            "panels": [panel.to_json() for panel in self.panels],
        }
