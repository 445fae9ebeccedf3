"""Scores and weights of one head, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.support.ui import Select

from regard.insight.picture import Picture

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]
MergeWords = Callable[..., Array]

# Shown with four decimals, and sent in 16 bits.
TOLERANCE = 6e-5


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_softmax_of_the_scores_gives_the_weights(
    show: Show, hands: Any, rich: Picture, name: str
) -> None:
    show(rich, f"#view=one-head&panel={name}&layer=1&map=2&pin=query-4")
    panel = rich.panel(name)
    assert panel.scores is not None
    scores = panel.scores[0, 1, 3].astype(np.float64)
    seen = np.flatnonzero(np.isfinite(scores))
    assert [int(n) for n in hands.numbers("#one-head tbody tr", "row")] == seen.tolist()
    exp = np.exp(scores[seen] - scores[seen].max())
    for column, expected in (
        ("score", scores[seen]),
        ("exp", exp),
        ("share", exp / exp.sum()),
        ("weight", panel.weights[0, 1, 3, seen]),
    ):
        shown = hands.numbers(f'#one-head td[data-name="{column}"]', "value")
        np.testing.assert_allclose(shown, expected, atol=TOLERANCE, err_msg=column)
    foot = hands.texts("#one-head tfoot td")
    assert float(foot[1]) == pytest.approx(exp.sum(), abs=TOLERANCE)
    assert float(foot[3]) == pytest.approx(1, abs=2e-4)


def test_products_of_query_and_key_add_up_to_the_score(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=one-head&panel=decoder&layer=2&map=3&pin=query-5")
    steps, panel = rich.views["steps"].panels[1], rich.panel("decoder")
    hands.find('[data-key="2"]').click()
    assert hands.address()["key"] == "3"
    query, key = steps.queries[1, 2, 4], steps.keys[1, 2, 2]
    shown = hands.vectors("product-numbers")
    np.testing.assert_allclose(shown["q of “fati”"], query, atol=TOLERANCE)
    np.testing.assert_allclose(shown["k of “ani”"], key, atol=TOLERANCE)
    np.testing.assert_allclose(shown["q × k"], query * key, atol=TOLERANCE)
    assert panel.scores is not None
    score = panel.scores[1, 2, 4, 2]
    dot = float(query @ key)
    assert score == pytest.approx(dot / 2 - 0.5, abs=1e-5)  # √4, and two positions away
    equation = hands.find("[data-sum]").text.replace("−", "-")
    assert equation == (
        f"q·k = {dot:.4f}; ÷ √K (K = 4) = {dot / 2:.4f}; - 0.5000 position bias = {score:.4f}"
    )
    # Without a position bias, none is shown.
    hands.choose("panel", "encoder")
    assert "bias" not in hands.find("[data-sum]").text


def test_query_layer_and_head_can_be_chosen(show: Show, hands: Any, rich: Picture) -> None:
    show(rich, "#view=one-head")
    Select(hands.find("#query")).select_by_index(2)
    hands.choose("layer", 0)
    hands.choose("head", 2)
    panel = rich.panel("encoder")
    shown = hands.numbers('#one-head td[data-name="weight"]', "value")
    np.testing.assert_allclose(shown, panel.weights[0, 2, 2], atol=TOLERANCE)
    best = int(panel.weights[0, 2, 2].argmax())
    assert hands.status().startswith(f"layer 1, head 3: “mal” → “{panel.keys[best]}” score ")
    hands.focus('[data-key][tabindex="0"]')
    hands.press(Keys.HOME, Keys.ENTER)
    assert hands.status().startswith("layer 1, head 3: “mal” → “The” score ")
