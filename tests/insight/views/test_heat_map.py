"""The heat map: its cells are the weights (mouse and keys: test_render)."""

from typing import Any

import numpy as np

from regard.insight.picture import Picture


def test_cells_have_the_weights_of_one_head_or_the_mean(
    show: Any, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=heat-map&panel=cross&layer=2&map=2")
    weights = rich.panel("cross").weights[1]
    np.testing.assert_allclose(hands.table("heat-map"), weights[1], atol=6e-5)
    hands.choose("map", "mean")
    np.testing.assert_allclose(hands.table("heat-map"), weights.mean(axis=0), atol=1.1e-4)
