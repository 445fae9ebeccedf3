"""Thumbnails of all heads, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from selenium.webdriver import Chrome, Keys

from regard.insight.panels.base import Panel
from regard.insight.picture import Picture

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]
MergeWords = Callable[..., Array]

# Shown with four decimals, and sent in 16 bits.
TOLERANCE = 6e-5


def test_each_thumbnail_has_the_weights_of_its_head(show: Show, hands: Any, rich: Picture) -> None:
    show(rich, "#view=all-heads&panel=cross")
    weights = rich.panel("cross").weights
    shown = hands.script(
        "return [...document.querySelectorAll('#all-heads button')].map(button => { "
        "const canvas = button.firstElementChild; const image = canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data; return [button.dataset.layer, "
        "button.dataset.head, canvas.width, [...image].filter((_, i) => i % 4 === 3)] })"
    )
    assert len(shown) == 6
    for layer, head, width, alphas in shown:
        expected = 255 * weights[int(layer), int(head)] ** 0.7
        np.testing.assert_allclose(np.reshape(alphas, (-1, width)), expected, atol=1.01)


def test_a_thumbnail_names_its_main_target_and_opens_the_head(show: Show, hands: Any) -> None:
    tokens = tuple("abcde")
    weights = np.full((2, 2, 5, 5), 0.1, dtype=np.float32) + 0.5 * np.eye(5, dtype=np.float32)
    weights[1, 0] = 0.05 + 0.75 * np.eye(5, k=-1)  # the previous token
    weights[1, 1] = 0.1
    weights[1, 1, :, 3] = 0.6  # one token
    show(
        Picture("t", "", "", "", (Panel("p", "Panel", tokens, tokens, weights),)), "#view=all-heads"
    )
    names = [button.accessible_name for button in hands.all("#all-heads button")]
    assert names == [
        "Layer 1, head 1: attends most to the same token (mean weight 0.60)",
        "Layer 1, head 2: attends most to the same token (mean weight 0.60)",
        "Layer 2, head 1: attends most to the previous token (mean weight 0.64)",
        "Layer 2, head 2: attends most to “d” (mean weight 0.60)",
    ]
    hands.focus('#all-heads button[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert hands.status() == f"{names[3]}."
    hands.press(Keys.ENTER)
    opened = hands.address()
    assert (opened["view"], opened["layer"], opened["heads"]) == ("overview", "2", "2")
    np.testing.assert_allclose(hands.table("heat-map"), weights[1, 1], atol=TOLERANCE)
