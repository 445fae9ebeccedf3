"""The rollout table, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.support.ui import Select

from regard.insight.picture import Picture

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]
MergeWords = Callable[..., Array]

# Shown with four decimals, and sent in 16 bits.
TOLERANCE = 6e-5


def test_table_has_the_shares_of_the_chosen_query_and_method(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=rollout&pin=query-3")
    for rollout in rich.views["rollout"].rollouts:
        hands.choose("method", rollout.method)
        np.testing.assert_allclose(hands.table("rollout"), rollout.shares[:, 2].T, atol=TOLERANCE)
    assert hands.address()["method"] == "gradient"
    Select(hands.find("#query")).select_by_index(5)
    np.testing.assert_allclose(
        hands.table("rollout"), rich.views["rollout"].rollouts[1].shares[:, 5].T, atol=TOLERANCE
    )
    hands.focus('#rollout td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    value = rich.views["rollout"].rollouts[1].shares[1, 5, 1]
    assert hands.status() == f"after layer 2, “ed” is {value:.4f} “ani”"


def test_shares_of_words_are_merged_from_tokens(
    show: Show, hands: Any, rich: Picture, merge_words: MergeWords
) -> None:
    show(rich, "#view=rollout&method=rollout&words=merged&pin=query-2")
    words = rich.panel("encoder").query_words
    expected = merge_words(rich.views["rollout"].rollouts[0].shares, words, words)[:, 1].T
    np.testing.assert_allclose(hands.table("rollout"), expected, atol=TOLERANCE)
    assert hands.texts("#rollout tbody th") == ["The", "animal", "was", "tired"]
