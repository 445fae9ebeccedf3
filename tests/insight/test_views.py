"""Each view of the page, in a browser: what it shows are the picture's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.support.ui import Select

from regard.insight.picture import Film, Panel, Picture, Scene

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]

# Shown with four decimals, and sent in 16 bits.
NEAR = 6e-5


def address(browser: Chrome) -> dict[str, str]:
    found = parse_qs(urlparse(browser.current_url).fragment)
    return {name: values[0] for name, values in found.items()}


def table(hands: Any, part: str) -> Array:
    """The numbers of a table whose cells hold weights."""
    rows = hands.script(
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].map(row => "
        "[...row.querySelectorAll('td[data-weight]')].map(cell => Number(cell.dataset.weight)))",
        part,
    )
    return np.array(rows)


def merged(weights: Array, queries: tuple[int, ...], keys: tuple[int, ...]) -> Array:
    """Queries of a word averaged, keys of a word added up."""
    to_query = np.eye(max(queries) + 1)[list(queries)].T
    to_key = np.eye(max(keys) + 1)[list(keys)]
    merged: Array = (to_query / to_query.sum(axis=1, keepdims=True)) @ weights @ to_key
    return merged


def vectors(hands: Any, part: str) -> dict[str, Array]:
    """The vectors in the table of numbers, opened where it was closed."""
    hands.script("document.getElementById(arguments[0]).open = true", part)
    hands.script("document.getElementById(arguments[0]).fill()", part)
    rows = hands.script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(row => "
        "[row.cells[0].textContent, [...row.querySelectorAll('td')].map(c => c.textContent)])",
        part,
    )
    return {name: np.array([float(v.replace("−", "-")) for v in values]) for name, values in rows}


# ------------------------------------------------------------ which views there are


def test_a_view_is_offered_only_where_there_is_something_to_show(
    show: Show, hands: Any, rich: Picture, picture: Picture
) -> None:
    show(rich)
    everything = ["both", "lines", "map", "heads", "depth", "follow", "align", "lens", "steps"]
    assert hands.views() == everything
    show(picture)
    assert hands.views() == ["both", "lines", "map", "heads", "align"]
    show(replace(picture, panels=picture.panels[:1]), "#view=align")
    assert hands.views() == ["both", "lines", "map", "heads"]
    assert hands.find(".lines-card").is_displayed()


def test_every_view_can_be_chosen_and_is_kept_in_the_address(
    show: Show, hands: Any, rich: Picture
) -> None:
    browser = show(rich)
    for view in ["heads", "depth", "follow", "align", "lens", "steps", "map", "lines", "both"]:
        hands.choose("view", view)
        assert address(browser)["view"] == view
        shown = [card for card in hands.all(".card") if card.is_displayed()]
        assert len(shown) == (2 if view == "both" else 1), view
        assert hands.status() != ""
        assert all(name for name in (card.accessible_name for card in shown))


def test_at_phone_width_only_tables_scroll(
    show: Show, hands: Any, browser: Chrome, emulated: Callable[..., None], rich: Picture
) -> None:
    emulated(browser, 360, 740)
    show(Film((Scene("", (rich, replace(rich, title="long" * 40))),)))
    for view in hands.views():
        hands.script("location.hash = `view=${arguments[0]}&step=2`", view)
        card = {"both": "lines"}.get(view, view)
        assert hands.find(f"#{card}-card-2").is_displayed()
        assert hands.script("return document.documentElement.scrollWidth") <= 360, view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_readable(
    show: Show,
    hands: Any,
    browser: Chrome,
    emulated: Callable[..., None],
    rich: Picture,
    scheme: str,
) -> None:
    emulated(browser, scheme=scheme, motion="reduce")
    show(rich)
    for view, selectors in {
        "heads": ["#glance th"],
        "depth": ["#depth thead th", "#depth tbody button", "#depth tfoot td", ".equation"],
        "follow": ["#follow tbody th", "#follow td"],
        "align": ["#align tbody th", "#align .names"],
        "lens": ["#lens td", "#lens .chance", "#likeliest .chance"],
        "steps": ["#step-title", "#step-equation", "#step-says", "#step-rows th"],
    }.items():
        hands.script("location.hash = `view=${arguments[0]}`", view)
        for selector in selectors:
            assert hands.contrast(selector) >= 4.5, selector


def test_notes_are_printed_as_text(show: Show, hands: Any, rich: Picture, picture: Picture) -> None:
    show(rich)
    assert hands.texts("[data-notes] li") == list(rich.notes)
    show(picture)
    assert not hands.find("[data-notes]").is_displayed()


# ------------------------------------------------------------ all heads


def test_each_small_picture_has_the_weights_of_its_head(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=heads&panel=cross")
    weights = rich.panel("cross").weights
    shown = hands.script(
        "return [...document.querySelectorAll('#glance button')].map(button => { "
        "const canvas = button.firstElementChild; const image = canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data; return [button.dataset.layer, "
        "button.dataset.head, canvas.width, [...image].filter((_, i) => i % 4 === 3)] })"
    )
    assert len(shown) == 6
    for layer, head, width, alphas in shown:
        expected = 255 * weights[int(layer), int(head)] ** 0.7
        np.testing.assert_allclose(np.reshape(alphas, (-1, width)), expected, atol=1.01)


def test_a_small_picture_says_what_the_head_does_and_opens_it(show: Show, hands: Any) -> None:
    words = tuple("abcde")
    weights = np.full((2, 2, 5, 5), 0.1, dtype=np.float32) + 0.5 * np.eye(5, dtype=np.float32)
    weights[1, 0] = 0.05 + 0.75 * np.eye(5, k=-1)  # the one before
    weights[1, 1] = 0.1
    weights[1, 1, :, 3] = 0.6  # always the same
    browser = show(
        Picture("t", "", "", "", (Panel("p", "Panel", words, words, weights),)), "#view=heads"
    )
    names = [button.accessible_name for button in hands.all("#glance button")]
    assert names == [
        "Layer 1, head 1: most on the word itself (0.60 on average)",
        "Layer 1, head 2: most on the word itself (0.60 on average)",
        "Layer 2, head 1: most on the previous word (0.64 on average)",
        "Layer 2, head 2: most on “d” (0.60 on average)",
    ]
    hands.focus('#glance button[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert hands.status() == f"{names[3]}."
    hands.press(Keys.ENTER)
    opened = address(browser)
    assert (opened["view"], opened["layer"], opened["heads"]) == ("both", "2", "2")
    np.testing.assert_allclose(table(hands, "map"), weights[1, 1], atol=NEAR)


# ------------------------------------------------------------ one head in depth


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_in_depth_scores_become_weights(show: Show, hands: Any, rich: Picture, name: str) -> None:
    show(rich, f"#view=depth&panel={name}&layer=1&map=2&pin=query-4")
    panel = rich.panel(name)
    assert panel.scores is not None
    scores = panel.scores[0, 1, 3].astype(np.float64)
    seen = np.flatnonzero(np.isfinite(scores))
    assert [int(n) for n in hands.numbers("#depth tbody tr", "row")] == seen.tolist()
    grown = np.exp(scores[seen] - scores[seen].max())
    for column, expected in (
        ("score", scores[seen]),
        ("grown", grown),
        ("share", grown / grown.sum()),
        ("weight", panel.weights[0, 1, 3, seen]),
    ):
        shown = hands.numbers(f'#depth td[data-name="{column}"]', "value")
        np.testing.assert_allclose(shown, expected, atol=NEAR, err_msg=column)
    foot = hands.texts("#depth tfoot td")
    assert float(foot[1]) == pytest.approx(grown.sum(), abs=NEAR)
    assert float(foot[3]) == pytest.approx(1, abs=2e-4)


def test_in_depth_products_add_up_to_the_score(show: Show, hands: Any, rich: Picture) -> None:
    browser = show(rich, "#view=depth&panel=decoder&layer=2&map=3&pin=query-5")
    steps, panel = rich.steps[1], rich.panel("decoder")
    hands.find('[data-against="2"]').click()
    assert address(browser)["against"] == "3"
    query, key = steps.queries[1, 2, 4], steps.keys[1, 2, 2]
    shown = vectors(hands, "product-numbers")
    np.testing.assert_allclose(shown["q of “fati”"], query, atol=NEAR)
    np.testing.assert_allclose(shown["k of “ani”"], key, atol=NEAR)
    np.testing.assert_allclose(shown["q × k"], query * key, atol=NEAR)
    assert panel.scores is not None
    score = panel.scores[1, 2, 4, 2]
    dot = float(query @ key)
    assert score == pytest.approx(dot / 2 - 0.5, abs=1e-5)  # √4, and two places away
    said = hands.find("[data-sum]").text.replace("−", "-")
    assert said == (
        f"q·k = {dot:.4f}; ÷ √4 = {dot / 2:.4f}; - 0.5000 for the positions = {score:.4f}"
    )
    # Where the positions add nothing, nothing is said of them.
    hands.choose("panel", "encoder")
    assert "positions" not in hands.find("[data-sum]").text


def test_in_depth_word_layer_and_head_are_chosen(show: Show, hands: Any, rich: Picture) -> None:
    show(rich, "#view=depth")
    Select(hands.find("#word")).select_by_index(2)
    hands.choose("layer", 0)
    hands.choose("one", 2)
    panel = rich.panel("encoder")
    shown = hands.numbers('#depth td[data-name="weight"]', "value")
    np.testing.assert_allclose(shown, panel.weights[0, 2, 2], atol=NEAR)
    best = int(panel.weights[0, 2, 2].argmax())
    assert hands.status().startswith(f"layer 1, head 3: “mal” → “{panel.keys[best]}” score ")
    hands.focus('[data-against][tabindex="0"]')
    hands.press(Keys.HOME, Keys.ENTER)
    assert hands.status().startswith("layer 1, head 3: “mal” → “The” score ")


# ------------------------------------------------------------ follow one word


def test_a_word_is_followed_through_the_layers(show: Show, hands: Any, rich: Picture) -> None:
    browser = show(rich, "#view=follow&pin=query-3")
    for flow in rich.flows:
        hands.choose("flow", flow.name)
        np.testing.assert_allclose(table(hands, "follow"), flow.weights[:, 2].T, atol=NEAR)
    assert address(browser)["flow"] == "gradient"
    Select(hands.find("#word")).select_by_index(5)
    np.testing.assert_allclose(table(hands, "follow"), rich.flows[1].weights[:, 5].T, atol=NEAR)
    hands.focus('#follow td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    value = rich.flows[1].weights[1, 5, 1]
    assert hands.status() == f"after layer 2, “ed” is {value:.4f} “ani”"


def test_whole_words_are_followed_too(show: Show, hands: Any, rich: Picture) -> None:
    show(rich, "#view=follow&flow=rollout&words=merged&pin=query-2")
    words = rich.panel("encoder").query_words
    expected = merged(rich.flows[0].weights, words, words)[:, 1].T
    np.testing.assert_allclose(table(hands, "follow"), expected, atol=NEAR)
    assert hands.texts("#follow tbody th") == ["The", "animal", "was", "tired"]


# ------------------------------------------------------------ alignment


def test_the_alignment_is_of_whole_words(show: Show, hands: Any, rich: Picture) -> None:
    show(rich, "#view=align&layer=1&heads=1,3")
    panel = rich.panel("cross")
    # Each row is named by what is said next, so the words move up by one, and the end is a word.
    said = (1, 2, 2, 3, 3, 4)
    mean = panel.weights[0, [0, 2]].mean(axis=0)
    expected = merged(mean, tuple(w - 1 for w in said), panel.key_words)
    np.testing.assert_allclose(table(hands, "align"), expected, atol=1e-4)
    assert hands.texts("#align tbody th") == ["L'", "animal", "fatigué", "</s>"]
    sources = ["The", "animal", "was", "tired"]
    assert hands.texts('#align thead th[scope="col"]') == sources
    best = [f"{sources[row.argmax()]} {row.max():.2f}" for row in expected]
    assert hands.texts("#align tbody .names") == best
    colour = hands.script(
        'return getComputedStyle(document.querySelector(\'[data-target="1"][data-from="2"]\'))'
        ".backgroundColor"
    )
    grey = int(colour.removeprefix("rgb(").split(",")[0])
    assert grey == pytest.approx(255 * expected[1, 2], abs=1)
    hands.focus('#align td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.END)
    assert hands.status().startswith("layer 1, mean of heads 1, 3: “animal” from “tired” 0.")


# ------------------------------------------------------------ next words by layer


def test_the_lens_shows_the_likeliest_and_lists_the_others(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=lens")
    lens = rich.lens
    assert lens is not None
    best = np.array([[row[0][1] for row in rows] for rows in lens.likeliest])
    np.testing.assert_allclose(table(hands, "lens"), best, atol=NEAR)
    pieces = [row[0][0] for rows in lens.likeliest for row in rows]
    assert hands.texts("#lens td .word") == pieces
    assert hands.texts("#lens tbody th") == list(lens.layers)
    hands.focus('#lens td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert hands.texts("#likeliest .word") == ["p120", "p121", "p122", "p123"]
    shown = [float(text) for text in hands.texts("#likeliest .chance")]
    np.testing.assert_allclose(shown, [p for _, p in lens.likeliest[1][2]], atol=NEAR)
    assert hands.status() == f"layer 1, after “ani”: “p120” {best[1, 2]:.4f}"


# ------------------------------------------------------------ the steps of the lecture


def test_the_steps_show_the_vectors_of_one_word(show: Show, hands: Any, rich: Picture) -> None:
    browser = show(rich, "#view=steps&panel=encoder&layer=2&map=2&pin=query-3")
    steps, panel = rich.steps[0], rich.panel("encoder")
    assert panel.scores is not None

    def column(name: str) -> list[float]:
        return list(hands.numbers(f'#step-rows td[data-name="{name}"]', "value"))

    shown = vectors(hands, "step-numbers")
    assert len(shown) == 6  # its own x is also one of those it looks at
    np.testing.assert_allclose(shown["x of “mal”"], steps.entered[1, 2], atol=NEAR)
    np.testing.assert_allclose(shown["x of “was”"], steps.remembered[1, 3], atol=NEAR)

    hands.find("#step-next").click()
    shown = vectors(hands, "step-numbers")
    assert len(shown) == 13
    np.testing.assert_allclose(shown["q of “mal”"], steps.queries[1, 1, 2], atol=NEAR)
    for key, word in enumerate(panel.keys):
        np.testing.assert_allclose(shown[f"k of “{word}”"], steps.keys[1, 1, key], atol=NEAR)
        np.testing.assert_allclose(shown[f"v of “{word}”"], steps.values[1, 1, key], atol=NEAR)

    hands.press(Keys.ARROW_RIGHT)
    assert address(browser)["step"] == "3"
    dots = steps.keys[1, 1] @ steps.queries[1, 1, 2]
    np.testing.assert_allclose(column("q · k"), dots, atol=NEAR)

    hands.press(Keys.ARROW_RIGHT)
    np.testing.assert_allclose(column("÷ √d"), panel.scores[1, 1, 2], atol=NEAR)
    assert column("score") == []

    hands.press(Keys.ARROW_RIGHT)
    np.testing.assert_allclose(column("α"), panel.weights[1, 1, 2], atol=NEAR)

    hands.press(Keys.ARROW_RIGHT)
    shown = vectors(hands, "step-numbers")
    np.testing.assert_allclose(shown["o of “mal”"], steps.found[1, 1, 2], atol=NEAR)
    made = np.array(column("α")) @ np.stack([shown[f"v of “{w}”"] for w in panel.keys])
    np.testing.assert_allclose(made, shown["o of “mal”"], atol=1e-3)

    hands.press(Keys.ARROW_RIGHT)
    shown = vectors(hands, "step-numbers")
    for head in range(3):
        expected = steps.found[1, head, 2]
        np.testing.assert_allclose(shown[f"o of head {head + 1}"], expected, atol=NEAR)

    hands.press(Keys.ARROW_RIGHT)
    shown = vectors(hands, "step-numbers")
    np.testing.assert_allclose(shown["y of “mal”"], steps.output[1, 2], atol=NEAR)
    assert hands.find("#step-next").get_attribute("disabled") is not None
    # The button that can go no further has left the focus to the other.
    hands.press(Keys.ARROW_LEFT)
    assert address(browser)["step"] == "7"
    browser.refresh()
    assert hands.find("#step-title").text == "7. Heads joined"
    assert len(hands.all("#step-lead .strip")) == 3


def test_the_steps_of_a_causal_model_leave_out_the_future(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=steps&panel=decoder&layer=1&map=1&pin=query-3&step=4")
    panel = rich.panel("decoder")
    assert panel.scores is not None
    assert hands.texts("#step-rows tbody th") == ["<s>", "L'", "ani"]
    shown = hands.numbers('#step-rows td[data-name="score"]', "value")
    np.testing.assert_allclose(shown, panel.scores[0, 0, 2, :3], atol=NEAR)
    assert "positions" in hands.find("#step-says").text


def test_strips_have_the_colour_of_the_number_and_are_read_by_keyboard(
    show: Show, hands: Any, rich: Picture
) -> None:
    show(rich, "#view=steps&panel=encoder&layer=1&map=1&pin=query-1&step=8")
    output = rich.steps[0].output[0, 0]
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


# ------------------------------------------------------------ pieces merged to words


def test_pieces_are_merged_to_words_on_request(
    show: Show, hands: Any, rich: Picture, picture: Picture
) -> None:
    browser = show(rich, "#panel=cross&layer=2&map=2&pin=query-4")
    panel = rich.panel("cross")
    np.testing.assert_allclose(table(hands, "map"), panel.weights[1, 1], atol=NEAR)
    hands.find("#merge").click()
    assert address(browser)["words"] == "merged"
    expected = merged(panel.weights[1, 1], panel.query_words, panel.key_words)
    np.testing.assert_allclose(table(hands, "map"), expected, atol=NEAR)
    assert hands.texts("#queries .word") == ["<s>", "L'", "animal", "fatigué"]
    assert hands.texts("#keys .word") == ["The", "animal", "was", "tired"]
    # The piece that was pinned is now part of a word, and so is what is said next.
    assert hands.find('button[data-query="2"]').get_attribute("aria-pressed") == "true"
    assert hands.texts("[data-predicts] bdi") == ["L'", "ani", "fati", "</s>"]
    drawn = hands.script(
        "return [...document.querySelectorAll('#threads path')].map(({dataset: d}) => "
        "[d.head, d.query, d.key, d.weight].map(Number))"
    )
    by_head = merged(panel.weights[1], panel.query_words, panel.key_words)
    assert {query for _, query, _, _ in drawn} == {2}
    for head, query, key, weight in drawn:
        assert weight == pytest.approx(by_head[int(head), int(query), int(key)], abs=NEAR)
    hands.find("#merge").click()
    assert table(hands, "map").shape == (6, 6)
    assert address(browser)["pin"] == "query-4"
    show(picture)
    assert not hands.find("#merge").is_displayed()


# ------------------------------------------------------------ two side by side


def test_two_pictures_stand_side_by_side(show: Show, hands: Any, rich: Picture) -> None:
    words = ("a", "b")
    small = Panel("encoder", "Encoder", words, words, np.full((1, 2, 2, 2), 0.5, np.float32))
    other = Picture("another", "smaller", "a b", "", (small,))
    browser = show(Film((Scene("", (rich, other)),)), "#layer=2&heads=1,3&map=3")
    left, right = (hands.find(f"#{part}") for part in ("lines-card", "lines-card-2"))
    assert left.rect["x"] + left.rect["width"] <= right.rect["x"]
    assert hands.texts(".story h2") == ["runs/rich", "another"]
    assert hands.texts("[data-source]") == [rich.source, "a b"]
    np.testing.assert_allclose(table(hands, "map"), rich.panel("encoder").weights[1, 2], atol=NEAR)
    # The other has neither a second layer nor a third head: it shows the last it has.
    np.testing.assert_allclose(table(hands, "map-2"), small.weights[0, 1], atol=NEAR)
    heads = hands.script(
        "return [...document.querySelectorAll('#threads-2 path')].map(p => p.dataset.head)"
    )
    assert set(heads) == {"0"}
    hands.choose("layer", 0)
    np.testing.assert_allclose(table(hands, "map"), rich.panel("encoder").weights[0, 2], atol=NEAR)
    hands.hover('#keys-2 button[data-key="1"]')
    assert hands.status().startswith("layer 1, head 1: “b” is looked at most by “a” 0.5000")
    hands.find('#queries button[data-query="1"]').click()
    hands.hover("h1")
    assert "left: layer 1" in hands.status()
    assert "right: layer 1" in hands.status()
    assert hands.find('#queries-2 button[data-query="1"]').get_attribute("aria-pressed") == "true"
    hands.choose("view", "depth")
    assert hands.find("#depth-card").is_displayed()
    assert hands.find("#nothing-2").is_displayed()
    ids = hands.script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert address(browser)["view"] == "depth"
