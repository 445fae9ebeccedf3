"""The opening of a page: cross-attention where there is any, its most telling query pinned.

    D_i = H(mean_h α_hi) − mean_h H(α_hi)

The most telling query i is the one on which the heads h disagree most: D is the Jensen–Shannon
divergence of their weights in the last layer.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.insight.packing import Floats
from regard.insight.panels.base import Panel

CROSS = "cross"  # name of the panel of cross-attention


def opening_panel(panels: Sequence[Panel]) -> Panel | None:
    """Return the panel that is shown first; None where there is none."""
    cross = (panel for panel in panels if panel.name == CROSS)
    return next(cross, panels[0] if panels else None)


def opening_query(panel: Panel) -> int | None:
    """Return the query that is pinned first: None but in cross-attention of several heads."""
    weights = panel.weights[-1]
    heads = weights[weights.any((1, 2))]
    if panel.name != CROSS or len(heads) < 2:
        return None
    return int((_entropy(heads.mean(0)) - _entropy(heads).mean(0)).argmax())


def _entropy(weights: Floats) -> npt.NDArray[np.float64]:
    logs = np.log2(np.where(weights > 0, weights, 1))
    entropy: npt.NDArray[np.float64] = -(weights * logs).sum(-1, dtype=np.float64)
    return entropy
