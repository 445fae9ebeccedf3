"""Attention step by step, in a browser."""

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


def test_every_step_shows_the_vectors_of_one_query(show: Show, hands: Any, rich: Picture) -> None:
    browser = show(rich, "#view=steps&panel=encoder&layer=2&map=2&pin=query-3")
    steps, panel = rich.views["steps"].panels[0], rich.panel("encoder")
    assert panel.scores is not None

    def column(name: str) -> list[float]:
        return list(hands.numbers(f'#step-rows td[data-name="{name}"]', "value"))

    shown = hands.vectors("step-numbers")
    assert len(shown) == 6  # the query's x is also one of the keys'
    np.testing.assert_allclose(shown["x of “mal”"], steps.inputs[1, 2], atol=TOLERANCE)
    np.testing.assert_allclose(shown["x of “was”"], steps.memory[1, 3], atol=TOLERANCE)

    hands.find("#step-next").click()
    shown = hands.vectors("step-numbers")
    assert len(shown) == 13
    np.testing.assert_allclose(shown["q of “mal”"], steps.queries[1, 1, 2], atol=TOLERANCE)
    for key, token in enumerate(panel.keys):
        np.testing.assert_allclose(shown[f"k of “{token}”"], steps.keys[1, 1, key], atol=TOLERANCE)
        np.testing.assert_allclose(
            shown[f"v of “{token}”"], steps.values[1, 1, key], atol=TOLERANCE
        )

    hands.press(Keys.ARROW_RIGHT)
    assert hands.address()["step"] == "3"
    dots = steps.keys[1, 1] @ steps.queries[1, 1, 2]
    np.testing.assert_allclose(column("q · k"), dots, atol=TOLERANCE)

    hands.press(Keys.ARROW_RIGHT)
    np.testing.assert_allclose(column("÷ √K"), panel.scores[1, 1, 2], atol=TOLERANCE)
    assert column("score") == []

    hands.press(Keys.ARROW_RIGHT)
    np.testing.assert_allclose(column("α"), panel.weights[1, 1, 2], atol=TOLERANCE)

    hands.press(Keys.ARROW_RIGHT)
    shown = hands.vectors("step-numbers")
    np.testing.assert_allclose(shown["o of “mal”"], steps.head_outputs[1, 1, 2], atol=TOLERANCE)
    computed = np.array(column("α")) @ np.stack([shown[f"v of “{w}”"] for w in panel.keys])
    np.testing.assert_allclose(computed, shown["o of “mal”"], atol=1e-3)

    hands.press(Keys.ARROW_RIGHT)
    shown = hands.vectors("step-numbers")
    for head in range(3):
        expected = steps.head_outputs[1, head, 2]
        np.testing.assert_allclose(shown[f"o of head {head + 1}"], expected, atol=TOLERANCE)

    hands.press(Keys.ARROW_RIGHT)
    shown = hands.vectors("step-numbers")
    np.testing.assert_allclose(shown["y of “mal”"], steps.output[1, 2], atol=TOLERANCE)
    assert hands.find("#step-next").get_attribute("disabled") is not None
    # The disabled button has passed the focus to the other.
    hands.press(Keys.ARROW_LEFT)
    assert hands.address()["step"] == "7"
    browser.refresh()
    assert hands.find("#step-title").text == "7. Concatenate heads"
    assert len(hands.all("#step-lead .strip")) == 3


def test_steps_of_a_causal_model_leave_out_later_keys(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=steps&panel=decoder&layer=1&map=1&pin=query-3&step=4")
    panel = rich.panel("decoder")
    assert panel.scores is not None
    assert hands.texts("#step-rows tbody th") == ["<s>", "L'", "ani"]
    shown = hands.numbers('#step-rows td[data-name="score"]', "value")
    np.testing.assert_allclose(shown, panel.scores[0, 0, 2, :3], atol=TOLERANCE)
    assert "position bias" in hands.find("#step-explains").text


def test_strips_have_the_color_of_the_numbers_and_are_read_by_keyboard(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=steps&panel=encoder&layer=1&map=1&pin=query-1&step=8")
    output = rich.views["steps"].panels[0].output[0, 0]
    pixels = hands.script(
        "const c = document.querySelector('#step-lead canvas'); "
        "return [...c.getContext('2d').getImageData(0, 0, c.width, 1).data]"
    )
    shown = np.reshape(pixels, (-1, 4))
    np.testing.assert_allclose(shown[:, 3], 255 * np.abs(output) / np.abs(output).max(), atol=1)
    strong = shown[:, 3] > 40
    assert ((shown[:, 0] > shown[:, 2]) == (output < 0))[strong].all()
    hands.focus("#step-lead .strip")
    hands.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    value = f"{output[2]:.4f}".replace("-", "−")
    assert hands.status() == f"y of “The”, number 3 of 12: {value}"
