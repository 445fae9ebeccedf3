"""The logit lens, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from selenium.webdriver import Chrome, Keys

from regard.insight.picture import Picture

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]
MergeWords = Callable[..., Array]

# Shown with four decimals, and sent in 16 bits.
TOLERANCE = 6e-5


def test_table_has_the_best_prediction_and_the_list_all_of_them(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=logit-lens")
    lens = rich.views["logit-lens"]
    assert lens is not None
    best = np.array([[row[0][1] for row in rows] for rows in lens.predictions])
    np.testing.assert_allclose(hands.table("logit-lens"), best, atol=TOLERANCE)
    pieces = [row[0][0] for rows in lens.predictions for row in rows]
    assert hands.texts("#logit-lens td .token") == pieces
    assert hands.texts("#logit-lens tbody th") == list(lens.layers)
    hands.focus('#logit-lens td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert hands.texts("#predictions .token") == ["p120", "p121", "p122", "p123"]
    shown = [float(text) for text in hands.texts("#predictions .probability")]
    np.testing.assert_allclose(shown, [p for _, p in lens.predictions[1][2]], atol=TOLERANCE)
    assert hands.status() == f"layer 1, after “ani”: “p120” {best[1, 2]:.4f}"
