"""Attention entropy of every head: 0 bits attend to one token, log₂ S bits to all S tokens alike.

H = −Σ_j α_ij log₂ α_ij     in bits, averaged over the queries i that attend to anything
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.insight.forward_passes import ForwardPass
from regard.insight.packing import Floats
from regard.insight.seen import Seen
from regard.insight.views.base import View, ViewData


@dataclass(frozen=True)
class PanelEntropy:
    """Mean entropy of each head of one panel."""

    panel: str
    bits: Floats  # (layers, heads); NaN for a head that attends to nothing
    largest: float  # log₂ of the number of keys

    def to_json(self) -> dict[str, Any]:
        rows = [
            [None if np.isnan(bits) else round(float(bits), 6) for bits in layer]
            for layer in self.bits
        ]
        return {"panel": self.panel, "bits": rows, "largest": self.largest}


@dataclass(frozen=True)
class Entropy(ViewData):
    """Mean entropy of each head of every panel."""

    panels: tuple[PanelEntropy, ...]
    per_token: ClassVar[bool] = False

    def to_json(self) -> list[dict[str, Any]]:
        return [panel.to_json() for panel in self.panels]


class Spec(View):
    title: ClassVar[str] = "Entropy"
    question: ClassVar[str] = "Does a head attend to one token (0 bits) or to many?"
    order: ClassVar[int] = 35

    def compute(self, run: ForwardPass, seen: Seen) -> Entropy:
        """Compute the entropy of each attention from its weights."""
        weights = {site.name: seen.by_layer(site.blocks, site.attention) for site in run.sites}
        return Entropy(
            tuple(
                PanelEntropy(name, mean_entropy(rows), float(np.log2(rows.shape[-1])))
                for name, rows in weights.items()
            )
        )


def mean_entropy(weights: Floats) -> Floats:
    """Return the entropy in bits of weights (L, H, T, S), averaged over queries: (L, H)."""
    logs = np.log2(np.where(weights > 0, weights, 1))
    entropy = -(weights * logs).sum(-1, dtype=np.float64)
    attends = weights.any(-1)
    count = attends.sum(-1)
    total = np.where(attends, entropy, 0).sum(-1)
    means: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
    return means
