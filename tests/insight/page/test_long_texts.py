"""Long texts: few tokens are in the document at a time, and their numbers are the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver import ActionChains, Chrome, Keys

from regard.insight.packing import WEIGHT_ONE
from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture

TOKENS = 800
HEADS = 4


@pytest.fixture(scope="module")
def weights() -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(5)
    drawn = rng.random((1, HEADS, TOKENS, TOKENS), dtype=np.float32) ** 300
    drawn /= drawn.sum(axis=-1, keepdims=True)
    return drawn


@pytest.fixture(scope="module")
def large(
    browser: Chrome,
    emulated: Callable[..., None],
    weights: npt.NDArray[np.float32],
    tmp_path_factory: pytest.TempPathFactory,
) -> Chrome:
    tokens = tuple(f"w{i}" for i in range(TOKENS))
    picture = Picture("large", "", "", "", (Panel("p", "Panel", tokens, tokens, weights),))
    path = tmp_path_factory.mktemp("large") / "page.html"
    render.write(picture, path)
    emulated(browser)
    browser.get("about:blank")
    browser.get(path.as_uri())
    return browser


def test_few_tokens_are_in_the_document(large: Chrome, hands: Any) -> None:
    large.execute_script(
        "const box = document.getElementById('wide-scroll').getBoundingClientRect(); "
        "document.getElementById('wide-scroll').dispatchEvent(new MouseEvent('mousemove', "
        "{clientX: box.left + 104 + 16 * 5 + 8, clientY: box.top + 96 + 16 * 7 + 8}))"
    )
    assert "“w7” → “w5”" in hands.status()
    assert len(hands.all("#queries button")) < 100
    assert len(hands.all("#heat-map td")) == 0


def test_cells_of_a_large_heat_map_have_the_weights(
    large: Chrome, hands: Any, weights: npt.NDArray[np.float32]
) -> None:
    hands.choose("map", 3)
    hands.focus("#wide-scroll")
    sent = np.round(weights[0, 3].astype(np.float64) * WEIGHT_ONE) / WEIGHT_ONE

    def check(query: int, key: int) -> None:
        cursor = hands.find("#wide-cursor")
        shown = (cursor.get_attribute("data-query"), cursor.get_attribute("data-key"))
        assert shown == (str(query), str(key))
        assert cursor.get_attribute("data-weight") == f"{sent[query, key]:.4f}"
        expected = f"layer 1, head 4: “w{query}” → “w{key}” {sent[query, key]:.4f}"
        assert hands.status() == expected

    hands.press(Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    check(1, 2)
    hands.press(Keys.END)
    check(1, TOKENS - 1)
    ActionChains(large).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    check(TOKENS - 1, TOKENS - 1)
    # The opacity of a cell follows its weight; the last cell ends at the lower right corner.
    alphas = large.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => { "
        "const c = document.getElementById('wide-canvas'); const { data } = c.getContext('2d')"
        ".getImageData(c.width - 320, c.height - 320, 320, 320); "
        "const to20 = [...Array(20).keys()]; "
        "done(to20.map(q => to20.map(k => data[((16 * q + 8) * 320 + 16 * k + 8) * 4 + 3]))) }))"
    )
    expected = 255 * 0.72 * sent[-20:, -20:] ** 0.7
    assert expected.max() > 20
    np.testing.assert_allclose(alphas, expected, atol=2)


@pytest.mark.usefixtures("large")
def test_mouse_reads_cells_after_scrolling_and_zooming(
    hands: Any, weights: npt.NDArray[np.float32]
) -> None:
    hands.choose("map", 3)
    sent = np.round(weights[0, 3].astype(np.float64) * WEIGHT_ONE) / WEIGHT_ONE
    for size, (query, key) in ((16, (300, 500)), (8, (301, 503)), (4, (133, 677))):
        if size < 16:
            hands.find("#wide-out").click()
        hands.script(
            "const [query, key, size] = arguments; "
            "const box = document.getElementById('wide-scroll'); "
            "box.scrollTo(key * size - 40, query * size - 80); "
            "const edge = box.getBoundingClientRect(); "
            "box.dispatchEvent(new MouseEvent('mousemove', "
            "{clientX: edge.left + 104 + 40 + size / 2, clientY: edge.top + 96 + 80 + size / 2}))",
            query,
            key,
            size,
        )
        assert hands.status() == f"layer 1, head 4: “w{query}” → “w{key}” {sent[query, key]:.4f}"


@pytest.mark.usefixtures("large")
def test_arrow_keys_scroll_through_the_tokens(hands: Any, weights: npt.NDArray[np.float32]) -> None:
    hands.find("[data-all-heads]").click()
    hands.focus('button[data-query="0"]')
    hands.press(Keys.END)
    assert hands.script("return document.activeElement.dataset.query") == str(TOKENS - 1)
    mean = weights[0, :, TOKENS - 1].mean(axis=0)
    best = int(mean.argmax())
    assert hands.status().startswith(
        f"layer 1, mean of all 4 heads: “w{TOKENS - 1}” attends most to “w{best}”"
    )
    hands.press(Keys.ARROW_RIGHT)
    assert hands.script("return document.activeElement.dataset.key") == str(best)
    assert hands.find(f'button[data-key="{best}"]').is_displayed()
    assert hands.find(f'button[data-key="{best}"]').accessible_name == (
        f"w{best}, token {best + 1} of {TOKENS}"
    )
    # Lines join the visible tokens.
    hands.script("document.activeElement.blur()")
    drawn = hands.script(
        "return [...document.querySelectorAll('#threads path')].map(({dataset: d}) => "
        "[d.head, d.query, d.key, d.weight].map(Number))"
    )
    assert drawn
    for head, query, key, weight in drawn:
        assert weight == pytest.approx(weights[0, int(head), int(query), int(key)], abs=6e-5)
        assert query > TOKENS - 60
    assert "each side scrolls by itself" in hands.find("[data-note]").text
