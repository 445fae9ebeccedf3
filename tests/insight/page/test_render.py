"""The attention page in a browser, with mouse and keyboard."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from regard.errors import OutputError
from regard.insight.packing import WEIGHT_ONE
from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import HEAD_COLORS, History, Picture
from regard.insight.views.base import View, all_views

Show = Callable[..., Chrome]
Emulate = Callable[..., None]
Weights = npt.NDArray[np.float32]
MakeAttention = Callable[..., Weights]

# The page draws lines from this weight on.
MIN_WEIGHT = 0.01


# ------------------------------------------------------------ reading and clicking


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def status(browser: Chrome) -> str:
    return find(browser, "[data-status]").text


def query(browser: Chrome, index: int) -> WebElement:
    return find(browser, f'button[data-query="{index}"]')


def key(browser: Chrome, index: int) -> WebElement:
    return find(browser, f'button[data-key="{index}"]')


def cell(browser: Chrome, row: int, column: int) -> WebElement:
    return find(browser, f'td[data-query="{row}"][data-key="{column}"]')


def head(browser: Chrome, index: int) -> WebElement:
    return find(browser, f'button[data-head="{index}"]')


def choose(browser: Chrome, kind: str, value: object) -> None:
    find(browser, f'label[data-{kind}="{value}"]').click()


def hover(browser: Chrome, element: WebElement) -> None:
    ActionChains(browser).move_to_element(element).perform()


def press(browser: Chrome, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def focused(browser: Chrome) -> dict[str, str]:
    found = browser.execute_script("return {...document.activeElement.dataset}")
    assert isinstance(found, dict)
    return found


def tab_to(browser: Chrome, selector: str) -> None:
    """Press Tab until something that matches has the focus."""
    for _ in range(20):
        press(browser, Keys.TAB)
        if browser.execute_script("return document.activeElement.matches(arguments[0])", selector):
            return
    pytest.fail(f"Tab never reaches {selector}")


def heat_map(browser: Chrome) -> npt.NDArray[np.float64]:
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#heat-map tbody tr')].map("
        "row => [...row.querySelectorAll('td')].map(cell => Number(cell.dataset.weight)))"
    )
    return np.array(rows)


def lines(browser: Chrome) -> dict[tuple[int, int, int], float]:
    """Return the weight of each line drawn, by (head, query, key)."""
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('#threads path')].map(({dataset: d}) => "
        "[d.head, d.query, d.key, d.weight].map(Number))"
    )
    return {(int(h), int(q), int(k)): weight for h, q, k, weight in drawn}


def sent(weights: Weights) -> npt.NDArray[np.float64]:
    """Return the weights as the page reads them: in 16 bits."""
    return np.round(weights.astype(np.float64) * WEIGHT_ONE) / WEIGHT_ONE


def expected_lines(
    weights: Weights,
    heads: list[int],
    queries: list[int] | None = None,
    keys: list[int] | None = None,
) -> dict[tuple[int, int, int], float]:
    whole = sent(weights)
    return {
        (h, q, k): float(f"{whole[h, q, k]:.4f}")
        for h in heads
        for q in (range(weights.shape[1]) if queries is None else queries)
        for k in (range(weights.shape[2]) if keys is None else keys)
        if whole[h, q, k] >= MIN_WEIGHT
    }


def behind(browser: Chrome, token: WebElement) -> list[float]:
    """Return the weights of the colored cells behind a token, for each visible head."""
    script = (
        "return [...arguments[0].querySelectorAll('i:not([hidden])')].map(i => i.dataset.weight)"
    )
    return [float(value) for value in browser.execute_script(script, token)]


def lit(browser: Chrome, side: str, light: str) -> set[int]:
    buttons = browser.find_elements(By.CSS_SELECTOR, f'button[data-{side}][data-light="{light}"]')
    return {int(button.get_attribute(f"data-{side}") or -1) for button in buttons}


def address(browser: Chrome) -> dict[str, str]:
    return {
        name: values[0] for name, values in parse_qs(urlparse(browser.current_url).fragment).items()
    }


# ------------------------------------------------------------ heat map and status line


def test_page_starts_with_the_last_layer_of_the_first_panel(show: Show, picture: Picture) -> None:
    browser = show()
    checked = browser.find_elements(By.CSS_SELECTOR, ".choice input:checked + span")
    assert [choice.text for choice in checked] == [
        "Overview",
        "Encoder self-attention",
        "3",
        "Mean of the selected heads",
    ]
    heads = browser.find_elements(By.CSS_SELECTOR, "#heads button")
    assert [button.get_attribute("aria-pressed") for button in heads] == ["true"] * 4
    assert find(browser, ".lines-card").is_displayed()
    assert find(browser, ".heat-map-card").is_displayed()
    assert find(browser, "[data-source]").text == picture.source
    assert find(browser, "[data-output]").text == picture.output
    assert find(browser, "h1").text == "runs/demo"
    weights = picture.panels[0].weights[2]
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3])
    assert not find(browser, "#needs").is_displayed()


@pytest.mark.parametrize("name", ["encoder", "decoder", "cross"])
def test_heat_map_has_the_weights_of_every_layer_and_head(
    show: Show, picture: Picture, name: str
) -> None:
    browser = show()
    choose(browser, "panel", name)
    weights = picture.panel(name).weights
    for layer in range(weights.shape[0]):
        choose(browser, "layer", layer)
        for one in range(weights.shape[1]):
            choose(browser, "map", one)
            np.testing.assert_allclose(heat_map(browser), weights[layer, one], atol=6e-5)
        choose(browser, "map", "mean")
        np.testing.assert_allclose(heat_map(browser), weights[layer].mean(axis=0), atol=1.1e-4)


def test_cells_show_two_decimals_and_the_mean_follows_the_selected_heads(
    show: Show, picture: Picture
) -> None:
    browser = show()
    head(browser, 1).click()
    head(browser, 2).click()
    mean = picture.panels[0].weights[2, [0, 3]].mean(axis=0)
    np.testing.assert_allclose(heat_map(browser), mean, atol=1.1e-4)
    assert float(cell(browser, 6, 1).text) == pytest.approx(mean[6, 1], abs=0.0051)
    assert re.fullmatch(r"[01]\.\d\d", cell(browser, 6, 1).text)


def test_status_line_shows_the_exact_value_of_a_cell(show: Show, picture: Picture) -> None:
    browser = show()
    choose(browser, "layer", 1)
    choose(browser, "map", 2)
    hover(browser, cell(browser, 6, 1))
    value = sent(picture.panels[0].weights)[1, 2, 6, 1]
    assert status(browser) == f"layer 2, head 3: “it” → “animal” {value:.4f}"
    choose(browser, "map", "mean")
    head(browser, 0).click()
    hover(browser, cell(browser, 6, 1))
    value = picture.panels[0].weights[1, 1:, 6, 1].mean()
    match = re.fullmatch(
        r"layer 2, mean of heads 2, 3, 4: “it” → “animal” (\d\.\d{4})", status(browser)
    )
    assert match is not None
    assert float(match[1]) == pytest.approx(value, abs=1.1e-4)


def test_masked_cells_are_hatched_not_zero(show: Show) -> None:
    browser = show(address="#panel=decoder")
    hatched, empty = (
        browser.execute_script(
            f"return [...document.querySelectorAll('td')].map(cell => {question})"
        )
        for question in ("'masked' in cell.dataset", "cell.textContent === ''")
    )
    later = np.triu(np.ones((7, 7), dtype=bool), k=1).ravel().tolist()
    assert hatched == later
    assert empty == later
    assert "gradient" in cell(browser, 0, 1).value_of_css_property("background-image")
    hover(browser, cell(browser, 0, 1))
    assert status(browser).endswith("“<s>” → “L'” masked")


# ------------------------------------------------------------ tokens and lines


def test_hovering_a_query_shows_its_lines_and_keys(show: Show, picture: Picture) -> None:
    browser = show()
    weights = picture.panels[0].weights[2]
    hover(browser, query(browser, 6))
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3], queries=[6])
    assert lit(browser, "query", "active") == {6}
    assert lit(browser, "key", "attended") == set(np.flatnonzero(weights[:, 6].max(axis=0) >= 0.1))
    for word in range(9):
        shown = behind(browser, key(browser, word))
        assert shown == pytest.approx(weights[:, 6, word].tolist(), abs=6e-5)
    mean = weights[:, 6].mean(axis=0)
    first = picture.panels[0].keys[int(mean.argmax())]
    assert f"layer 3, mean of all 4 heads: “it” attends most to “{first}” 0." in status(browser)
    hover(browser, find(browser, "h1"))
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3])


def test_hovering_a_key_shows_its_lines_and_queries(show: Show, picture: Picture) -> None:
    browser = show(address="#panel=cross&layer=1&heads=2,4")
    weights = picture.panel("cross").weights[0]
    hover(browser, key(browser, 1))
    assert lines(browser) == expected_lines(weights, [1, 3], keys=[1])
    assert lit(browser, "key", "active") == {1}
    looking = set(np.flatnonzero(weights[[1, 3], :, 1].max(axis=0) >= 0.1))
    assert lit(browser, "query", "attended") == looking
    assert behind(browser, query(browser, 2)) == pytest.approx(weights[[1, 3], 2, 1], abs=6e-5)
    first = picture.panel("cross").queries[int(weights[[1, 3], :, 1].mean(axis=0).argmax())]
    assert f"“animal” is attended to most by “{first}” 0." in status(browser)


def test_colors_behind_tokens_are_means_without_an_active_token(
    show: Show, picture: Picture
) -> None:
    browser = show()
    means = picture.panels[0].weights[2].mean(axis=1)
    for word in range(9):
        assert behind(browser, key(browser, word)) == pytest.approx(means[:, word], abs=1.1e-4)
    opacity = browser.execute_script(
        "return [...document.querySelectorAll('#keys i')].map(i => "
        "Number(i.style.getPropertyValue('--weight')))"
    )
    assert max(opacity) == 1
    assert int(np.argmax(opacity)) == int(np.argmax(means.T))


def test_lines_have_the_color_of_their_head_and_grow_with_the_weight(show: Show) -> None:
    browser = show()
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('#threads path')].map(path => { "
        "const s = getComputedStyle(path); return [Number(path.dataset.head), "
        "Number(path.dataset.weight), s.stroke, parseFloat(s.strokeWidth), "
        "parseFloat(s.strokeOpacity)] })"
    )
    drawn.sort(key=lambda line: line[1])
    widths, opacities = [line[3] for line in drawn], [line[4] for line in drawn]
    assert widths == sorted(widths)
    assert opacities == sorted(opacities)
    assert widths[-1] > 3 * widths[0]
    for number, _, stroke, *_ in drawn:
        red, green, blue = bytes.fromhex(HEAD_COLORS[number][1:])
        assert stroke == f"rgb({red}, {green}, {blue})"


def test_lines_end_at_their_tokens(show: Show) -> None:
    browser = show(address="#panel=cross&heads=1&pin=query-4")
    for (_, q, k), _weight in lines(browser).items():
        box = find(browser, f'path[data-query="{q}"][data-key="{k}"]').rect
        middles = [
            word.rect["y"] + word.rect["height"] / 2
            for word in (query(browser, q), key(browser, k))
        ]
        half_row = query(browser, q).rect["height"] / 2
        assert abs(box["y"] - min(middles)) < half_row
        assert abs(box["y"] + box["height"] - max(middles)) < half_row


def test_clicking_pins_a_token_and_the_other_side_makes_a_pair(
    show: Show, picture: Picture
) -> None:
    browser = show()
    weights = picture.panels[0].weights[2]
    query(browser, 6).click()
    hover(browser, find(browser, "h1"))
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3], queries=[6])
    assert query(browser, 6).get_attribute("aria-pressed") == "true"
    assert address(browser)["pin"] == "query-7"
    hover(browser, key(browser, 1))
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3], queries=[6], keys=[1])
    values = ", ".join(f"head {h + 1} {sent(weights)[h, 6, 1]:.4f}" for h in range(4))
    assert status(browser) == f"layer 3: “it” → “animal” {values}"
    query(browser, 6).click()
    hover(browser, find(browser, "h1"))
    assert "pin" not in address(browser)
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3])


def test_predicted_next_tokens_are_shown(show: Show) -> None:
    browser = show(address="#panel=decoder")
    assert find(browser, 'button[data-query="1"] [data-predicts]').text == "next: animal"
    hover(browser, query(browser, 1))
    assert status(browser).endswith("Next token after “L'”: “animal”")
    choose(browser, "panel", "encoder")
    assert browser.find_elements(By.CSS_SELECTOR, "[data-predicts]") == []


# ------------------------------------------------------------ heads


def test_heads_are_toggled_shown_alone_and_all_selected_again(show: Show, picture: Picture) -> None:
    browser = show()
    weights = picture.panels[0].weights[2]
    head(browser, 1).click()
    assert lines(browser) == expected_lines(weights, [0, 2, 3])
    ActionChains(browser).double_click(head(browser, 2)).perform()
    assert lines(browser) == expected_lines(weights, [2])
    shift = ActionChains(browser).key_down(Keys.SHIFT).click(head(browser, 3)).key_up(Keys.SHIFT)
    shift.perform()
    assert lines(browser) == expected_lines(weights, [3])
    assert address(browser)["heads"] == "4"
    head(browser, 3).click()
    assert lines(browser) == {}
    assert find(browser, "[data-note]").text == "No head is selected."
    assert cell(browser, 0, 0).text == ""
    find(browser, "[data-all-heads]").click()
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3])


def test_changing_the_panel_keeps_choices_that_still_exist(
    show: Show, make_attention: MakeAttention
) -> None:
    tokens = ("a", "b", "c")
    panels = (
        Panel("big", "Big", tokens, tokens, make_attention(1, 4, 6, 3, 3)),
        Panel("small", "Small", tokens, tokens, make_attention(2, 2, 2, 3, 3)),
    )
    browser = show(Picture("t", "", "abc", "", panels), "#panel=big&layer=4&heads=2,6&map=5")
    choose(browser, "panel", "small")
    expected = {"panel": "small", "layer": "2", "heads": "2", "map": "mean", "view": "overview"}
    assert address(browser) == expected
    assert {line[0] for line in lines(browser)} == {1}


# ------------------------------------------------------------ keyboard and screen readers


def test_tokens_are_reached_and_pinned_by_keyboard(show: Show, picture: Picture) -> None:
    browser = show()
    weights = picture.panels[0].weights[2]
    tab_to(browser, "button[data-query]")
    assert focused(browser)["query"] == "0"
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3], queries=[0])
    assert query(browser, 0).value_of_css_property("outline-style") == "solid"
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert focused(browser)["query"] == "2"
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3], queries=[2])
    press(browser, Keys.END)
    assert focused(browser)["query"] == "8"
    press(browser, Keys.ENTER)
    assert address(browser)["pin"] == "query-9"
    strongest = int(weights[:, 8].mean(axis=0).argmax())
    press(browser, Keys.ARROW_RIGHT)
    assert focused(browser)["key"] == str(strongest)
    pair = expected_lines(weights, [0, 1, 2, 3], queries=[8], keys=[strongest])
    assert lines(browser) == pair
    press(browser, Keys.ESCAPE)
    assert "pin" not in address(browser)
    assert lines(browser) == expected_lines(weights, [0, 1, 2, 3], keys=[strongest])


def test_arrow_keys_move_among_the_cells_of_the_heat_map(show: Show, picture: Picture) -> None:
    browser = show(address="#panel=cross&map=2")
    weights = sent(picture.panel("cross").weights[1, 1])
    tab_to(browser, "td")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert status(browser) == f"layer 2, head 2: “L'” → “did” {weights[1, 2]:.4f}"
    press(browser, Keys.END)
    assert (focused(browser)["query"], focused(browser)["key"]) == ("1", "8")
    press(browser, Keys.ARROW_RIGHT)
    assert focused(browser)["key"] == "8"
    press(browser, Keys.HOME, Keys.ARROW_UP, Keys.ARROW_UP)
    assert (focused(browser)["query"], focused(browser)["key"]) == ("0", "0")
    ActionChains(browser).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    assert status(browser) == f"layer 2, head 2: “traversé” → “tired” {weights[6, 8]:.4f}"


def test_heads_and_layers_are_chosen_by_keyboard(show: Show) -> None:
    browser = show()
    tab_to(browser, '[name="panel"]')
    press(browser, Keys.ARROW_RIGHT)
    assert address(browser)["panel"] == "decoder"
    press(browser, Keys.TAB, Keys.ARROW_LEFT)
    assert address(browser)["layer"] == "1"
    press(browser, Keys.TAB, Keys.ARROW_RIGHT, Keys.SPACE)
    assert address(browser)["heads"] == "1,3,4"
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    assert address(browser)["heads"] == "2"


def test_elements_have_roles_and_accessible_names(show: Show) -> None:
    browser = show(address="#panel=decoder&pin=query-3")
    assert find(browser, "#heat-map").aria_role == "grid"
    assert find(browser, "#heat-map").accessible_name == "Heat map, layer 2, mean of all 4 heads"
    assert cell(browser, 2, 1).aria_role == "gridcell"
    assert cell(browser, 0, 1).accessible_name == "masked"
    assert find(browser, 'th[scope="row"][data-query="2"]').aria_role == "rowheader"
    assert find(browser, 'th[scope="col"][data-key="1"]').aria_role == "columnheader"
    assert head(browser, 0).accessible_name == "Head 1"
    assert find(browser, 'label[data-layer="0"] input').aria_role == "radio"
    assert query(browser, 2).accessible_name == "animal, token 3 of 7; predicted next token: n'"
    assert query(browser, 2).get_attribute("aria-pressed") == "true"
    assert find(browser, "[data-status]").get_attribute("aria-live") == "polite"
    assert find(browser, "#threads").get_attribute("aria-hidden") == "true"


# ------------------------------------------------------------ address


def test_reload_keeps_the_choices(show: Show, picture: Picture) -> None:
    browser = show()
    choose(browser, "panel", "cross")
    choose(browser, "layer", 0)
    head(browser, 3).click()
    choose(browser, "map", 1)
    key(browser, 5).click()
    choose(browser, "view", "lines")
    before = address(browser)
    assert before == {
        "panel": "cross",
        "layer": "1",
        "heads": "1,2,3",
        "map": "2",
        "view": "lines",
        "pin": "key-6",
    }
    browser.refresh()
    assert address(browser) == before
    weights = picture.panel("cross").weights[0]
    assert lines(browser) == expected_lines(weights, [0, 1, 2], keys=[5])
    assert not find(browser, ".heat-map-card").is_displayed()
    choose(browser, "view", "heat-map")
    assert not find(browser, ".lines-card").is_displayed()
    np.testing.assert_allclose(heat_map(browser), weights[1], atol=6e-5)


@pytest.mark.parametrize(
    "nonsense",
    ["#panel=none&layer=99&heads=x,7&map=-1&view=toString&pin=query-900", "#panel=&%%%"],
)
def test_invalid_addresses_open_with_defaults(show: Show, nonsense: str) -> None:
    browser = show(address=nonsense)
    assert find(browser, 'label[data-panel="cross"] input').is_selected()
    assert find(browser, 'label[data-layer="1"] input').is_selected()
    assert heat_map(browser).shape == (7, 9)
    assert lit(browser, "query", "active") == set()


def test_translators_open_on_cross_attention_with_the_most_telling_query(
    show: Show, picture: Picture
) -> None:
    weights = picture.panel("cross").weights[-1].astype(float)
    entropy = -(weights * np.log2(weights)).sum(-1)
    mean = weights.mean(0)
    telling = int((-(mean * np.log2(mean)).sum(-1) - entropy.mean(0)).argmax())
    browser = show(address=None)
    assert find(browser, 'label[data-panel="cross"] input').is_selected()
    assert lit(browser, "query", "active") == {telling}
    assert query(browser, telling).get_attribute("aria-pressed") == "true"
    # Unpinned, it stays so when the address is opened again; other panels open without a pin.
    press(browser, Keys.ESCAPE)
    choose(browser, "view", "heat-map")
    browser.refresh()
    assert "pin" not in address(browser)
    show(address=None)
    choose(browser, "panel", "encoder")
    assert lit(browser, "query", "active") == set()
    # A link that names a pin is followed.
    show(address="#panel=cross&pin=query-2")
    assert lit(browser, "query", "active") == {1}


def test_rows_of_the_heat_map_have_the_predicted_tokens(show: Show, picture: Picture) -> None:
    browser = show(address="#panel=decoder&view=heat-map")
    texts = [head.text for head in browser.find_elements(By.CSS_SELECTOR, "#heat-map tbody th")]
    panel = picture.panel("decoder")
    assert texts == [
        f"{token}\nnext: {next_token}"
        for token, next_token in zip(panel.queries, panel.predicts, strict=True)
    ]


def test_guide_leads_through_the_views_that_differ(show: Show, rich: Picture) -> None:
    browser = show(rich, None)
    assert find(browser, "#guide").text == "Start here: Which token attends to which, in one layer?"
    titles = []
    while find(browser, "#guide-next").is_displayed():
        titles.append(find(browser, "#guide-next").text.removeprefix("Next: ").removesuffix(" ›"))
        find(browser, "#guide-next").click()
        assert find(browser, "#guide").text.startswith(f"{len(titles) + 1} of ")
    inside = {"Lines", "Heat map"}  # parts of the overview
    assert titles == [view.title for view in all_views()[1:] if view.title not in inside]


@pytest.mark.parametrize("view", all_views(), ids=lambda view: view.kind())
def test_the_picture_comes_early_on_a_phone(
    show: Show, emulated: Emulate, browser: Chrome, rich: Picture, view: View
) -> None:
    emulated(browser, width=390, height=844)
    show(rich, f"#view={view.kind()}&panel=cross")
    card = (view.cards or (view.kind(),))[0]
    top = browser.execute_script(
        "return Math.min(...[...document.querySelectorAll(`#${arguments[0]}-card :is(td, svg, "
        "canvas, button)`)].filter(e => e.offsetParent || e.ownerSVGElement !== undefined)"
        ".map(e => e.getBoundingClientRect()).filter(b => b.height > 0).map(b => b.top))",
        card,
    )
    assert 0 < top < 700
    # The chosen option of each row is visible.
    for selector in ("#views", "#panels"):
        row = find(browser, selector)
        if row.is_displayed():
            chosen = find(browser, f"{selector} input:checked + span")
            assert chosen.rect["x"] >= row.rect["x"] - 1
            assert chosen.rect["x"] + chosen.rect["width"] <= row.rect["x"] + row.rect["width"] + 1
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_edited_addresses_are_followed(show: Show, picture: Picture) -> None:
    browser = show()
    browser.execute_script("location.hash = '#panel=decoder&layer=1&map=4'")
    weights = picture.panel("decoder").weights[0, 3]
    np.testing.assert_allclose(heat_map(browser), weights, atol=6e-5)


# ------------------------------------------------------------ hostile and unusual pictures


def test_hostile_text_is_shown_as_text(show: Show, make_attention: MakeAttention) -> None:
    attack = "</script><img src=x onerror=\"document.title='owned'\">"
    words = (attack, "\"'><b>", "<!-- <script>", "🙂👩‍👩‍👧", "שלום", "{{script}}", "\u2028", "a\nb")
    weights = make_attention(8, 1, 2, len(words), len(words))
    panel = Panel(attack, attack, words, words, weights, predicts=words)
    browser = show(Picture(attack, attack, attack + " {{picture}} 🙂", attack, (panel,)))
    assert find(browser, "h1").text == attack
    assert find(browser, "[data-source]").text == attack + " {{picture}} 🙂"
    assert find(browser, "#panels .choice span").text == attack
    shown = [word.text for word in browser.find_elements(By.CSS_SELECTOR, "#keys .token")]
    assert shown == [*words[:6], "␣", "a↵b"]
    hover(browser, query(browser, 0))
    assert f"“{attack}” attends most to" in status(browser)
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert browser.title == f"{attack} · attention"
    query(browser, 0).click()
    browser.refresh()
    assert lit(browser, "query", "active") == {0}


def test_tokens_with_all_keys_masked_have_no_lines(
    show: Show, make_attention: MakeAttention
) -> None:
    weights = make_attention(9, 2, 3, 4, 4)
    weights[:, :, 2] = 0
    words = ("a", "b", "padding", "d")
    browser = show(Picture("t", "", "", "", (Panel("p", "Panel", words, words, weights),)))
    assert not find(browser, "[data-output]").is_displayed()
    assert {line[1] for line in lines(browser)} == {0, 1, 3}
    hover(browser, query(browser, 2))
    assert lines(browser) == {}
    assert status(browser) == "layer 2, mean of all 3 heads: “padding” attends to nothing"
    assert [cell(browser, 2, k).text for k in range(4)] == [""] * 4
    tab_to(browser, "button[data-query]")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert focused(browser)["key"] == "0"


@pytest.mark.parametrize("words", [(), ("alone",)])
def test_the_smallest_pictures_open(show: Show, words: tuple[str, ...]) -> None:
    weights = np.ones((1, 1, len(words), len(words)), dtype=np.float32)
    browser = show(Picture("t", "", "", "", (Panel("p", "Panel", words, words, weights),)))
    assert len(lines(browser)) == len(words)
    assert status(browser) == "layer 1, head 1. Point at a token or a cell."


def test_picture_without_panels_shows_a_message(show: Show) -> None:
    browser = show(Picture("t", "", "read", "", ()))
    assert "no attention to show" in find(browser, "main").text


def test_note_counts_the_lines_that_are_left_out(show: Show, make_attention: MakeAttention) -> None:
    words = tuple(f"word{i}" for i in range(40))
    weights = make_attention(10, 2, 8, 40, 40)
    browser = show(Picture("t", "", "", "", (Panel("p", "Panel", words, words, weights),)))
    browser.execute_script("document.querySelector('label[data-layer=\"0\"] input').click()")
    drawn = lines(browser)
    whole = sent(weights[0])
    left = int((whole > 0).sum()) - len(drawn)
    assert min(drawn.values()) >= np.sort(whole.ravel())[-len(drawn)] - 6e-5
    assert (
        f"{left} lines are too faint to draw (weight below 0." in find(browser, "[data-note]").text
    )
    np.testing.assert_allclose(heat_map(browser), weights[0].mean(axis=0), atol=1.1e-4)
    hover(browser, query(browser, 3))
    assert lines(browser) == expected_lines(weights[0], list(range(8)), queries=[3])


# ------------------------------------------------------------ network and scripts


def test_page_makes_no_network_requests(show: Show) -> None:
    browser = show()
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    refused = browser.execute_async_script(
        "const done = arguments[0], refused = []; "
        "addEventListener('securitypolicyviolation', ({effectiveDirective}) => { "
        "  refused.push(effectiveDirective); if (refused.length === 3) done(refused.sort()); }); "
        "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'})); "
        "const code = document.createElement('script'); code.textContent = 'document.title = 1'; "
        "document.body.append(code); fetch('http://127.0.0.1:9/').catch(() => {});"
    )
    assert refused == ["connect-src", "img-src", "script-src-elem"]
    assert browser.title == "runs/demo · attention"
    # The console has a message for each refusal.
    assert len(browser.get_log("browser")) >= 3  # type: ignore[no-untyped-call]


def test_page_without_scripts_asks_for_javascript(show: Show) -> None:
    browser = show()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        shown = browser.execute_cdp_cmd("DOM.getDocument", {})
        found = browser.execute_cdp_cmd(
            "DOM.querySelector", {"nodeId": shown["root"]["nodeId"], "selector": "#needs"}
        )
        text = browser.execute_cdp_cmd("DOM.getOuterHTML", {"nodeId": found["nodeId"]})
        # Only a visible element has a box.
        assert browser.execute_cdp_cmd("DOM.getBoxModel", {"nodeId": found["nodeId"]})
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "Please allow JavaScript" in text["outerHTML"]


# ------------------------------------------------------------ screens and colors


@pytest.mark.parametrize("name", ["encoder", "decoder", "cross"])
def test_only_the_heat_map_scrolls_at_phone_width(
    show: Show, browser: Chrome, emulated: Emulate, make_attention: MakeAttention, name: str
) -> None:
    words = tuple(["incomprehensibilities", "a", "because", "straßenbahnhaltestelle"] * 5)
    weights = make_attention(11, 12, 12, 20, 20)
    titles = {"encoder": "Encoder self-attention", "decoder": "Decoder", "cross": "Cross"}
    panels = tuple(Panel(n, t, words, words, weights, words) for n, t in titles.items())
    emulated(browser, 360, 740)
    show(Picture("runs/" + "long" * 30, "", "x" * 400, "y", panels))
    choose(browser, "panel", name)
    width = "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert max(browser.execute_script(width)) <= 360
    box = "const b = document.getElementById('scroll'); return [b.scrollWidth, b.clientWidth]"
    inside, outside = browser.execute_script(box)
    assert inside > 800 > 360 > outside
    # A cell far to the right can be reached, and the headings stay.
    browser.execute_script("arguments[0].focus()", cell(browser, 0, 19))
    heading = find(browser, 'th[scope="row"][data-query="0"]').rect
    assert 0 <= heading["x"] < 60
    assert cell(browser, 0, 19).rect["x"] < 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_the_full_color_of_every_head(
    show: Show, hands: Any, browser: Chrome, emulated: Emulate, scheme: str
) -> None:
    # Without transitions, a color read at once is the final one.
    emulated(browser, scheme=scheme, motion="reduce")
    weights = np.ones((1, 10, 1, 1), dtype=np.float32)
    show(Picture("t", "c", "s", "o", (Panel("p", "P", ("a",), ("b",), weights),)))
    _, behind_page = hands.colors("body")
    assert (sum(behind_page[:3]) < 200) == (scheme == "dark")
    chosen = ".choice input:checked + span"
    for selector in ("h1", ".caption", ".explain", ".status", "tbody th", chosen):
        assert hands.contrast(selector) >= 4.5, selector
    for one in range(10):
        choose(browser, "map", one)
        square, cell_behind_word = f'button[data-head="{one}"]', f'#keys i[data-head="{one}"]'
        for selector in ("td", square, cell_behind_word):
            assert hands.contrast(selector) >= 4.5, (selector, HEAD_COLORS[one])


def test_theme_follows_the_system_until_the_button_is_used(show: Show, emulated: Emulate) -> None:
    browser = show()

    def background() -> str:
        return find(browser, "body").value_of_css_property("background-color")

    light = background()
    emulated(browser, scheme="dark")
    # The page is notified with the next frame.
    WebDriverWait(browser, 5).until(lambda _: background() != light)
    assert "theme" not in address(browser)
    find(browser, "[data-theme-toggle]").click()
    assert background() == light
    browser.refresh()
    assert background() == light


def test_reduced_motion_disables_transitions(show: Show, emulated: Emulate) -> None:
    browser = show()
    duration = "return getComputedStyle(document.querySelector('.pill')).transitionDuration"
    assert browser.execute_script(duration) != "0s"
    emulated(browser, motion="reduce")
    assert browser.execute_script(duration) == "0s"


# ------------------------------------------------------------ data and file


def test_embedded_json_is_the_picture(picture: Picture) -> None:
    html = render.render(picture)
    block = re.search(
        r'<script type="application/json" id="history-data">(.*?)</script>', html, re.S
    )
    assert block is not None
    assert "<" not in block[1]
    assert json.loads(block[1]) == History.of(picture).to_json()
    weights = picture.to_json()["panels"][0]["weights"]
    assert (weights["type"], weights["shape"]) == ("u16", [3, 4, 9, 9])
    whole = np.frombuffer(base64.b64decode(weights["data"]), dtype="<u2").reshape(3, 4, 9, 9)
    np.testing.assert_allclose(whole / WEIGHT_ONE, picture.panels[0].weights, atol=8e-6)


def test_inconsistent_pictures_are_refused() -> None:
    good = np.full((1, 1, 2, 2), 0.5, dtype=np.float32)
    words = ("a", "b")
    with pytest.raises(ValueError, match="3 keys"):
        Panel("p", "P", words, ("a", "b", "c"), good)
    with pytest.raises(ValueError, match="at least one layer"):
        Panel("p", "P", words, words, good[:0])
    with pytest.raises(ValueError, match="finite"):
        Panel("p", "P", words, words, good * np.float32("nan"))
    with pytest.raises(ValueError, match="1 entries for 2 tokens"):
        Panel("p", "P", words, words, good, ("x",))
    panel = Panel("p", "P", words, words, good)
    with pytest.raises(ValueError, match="names of panels must differ"):
        Picture("t", "", "", "", (panel, panel))


def test_pages_are_written_atomically(picture: Picture, tmp_path: Path) -> None:
    target = tmp_path / "attention.html"
    target.write_text("the old page")
    render.write(picture, target)
    assert target.read_text(encoding="utf-8") == render.render(picture)
    assert [path.name for path in tmp_path.iterdir()] == ["attention.html"]
    with pytest.raises(OutputError, match="nowhere"):
        render.write(picture, tmp_path / "nowhere" / "attention.html")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="taken"):
        render.write(picture, tmp_path / "taken")
    assert {path.name for path in tmp_path.iterdir()} == {"attention.html", "taken"}


def test_text_that_is_not_unicode_does_not_stop_the_page(tmp_path: Path) -> None:
    render.write(Picture("half of \ud83d", "", "", "", ()), tmp_path / "page.html")
    assert "half of ?" in (tmp_path / "page.html").read_text(encoding="utf-8")
