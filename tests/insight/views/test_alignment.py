"""The alignment table, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver import Chrome, Keys

from regard.insight.picture import Picture

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]
MergeWords = Callable[..., Array]

# Shown with four decimals, and sent in 16 bits.
TOLERANCE = 6e-5


def test_alignment_has_the_mean_weights_of_words(
    show: Show, hands: Any, rich: Picture, merge_words: MergeWords
) -> None:
    show(rich, "#view=alignment&layer=1&heads=1,3")
    panel = rich.panel("cross")
    # Each row is named by the predicted token: words move up by one, and the end is a word.
    predicted = (1, 2, 2, 3, 3, 4)
    mean = panel.weights[0, [0, 2]].mean(axis=0)
    expected = merge_words(mean, tuple(w - 1 for w in predicted), panel.key_words)
    np.testing.assert_allclose(hands.table("alignment"), expected, atol=1e-4)
    assert hands.texts("#alignment tbody th") == ["L'", "animal", "fatigué", "</s>"]
    sources = ["The", "animal", "was", "tired"]
    assert hands.texts('#alignment thead th[scope="col"]') == sources
    best = [f"{sources[row.argmax()]} {row.max():.2f}" for row in expected]
    assert hands.texts("#alignment tbody .names") == best
    color = hands.script(
        'return getComputedStyle(document.querySelector(\'[data-target="1"][data-from="2"]\'))'
        ".backgroundColor"
    )
    gray = int(color.removeprefix("rgb(").split(",")[0])
    assert gray == pytest.approx(255 * expected[1, 2], abs=1)
    hands.focus('#alignment td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.END)
    assert hands.status().startswith("layer 1, mean of heads 1, 3: “animal” aligned to “tired” 0.")
