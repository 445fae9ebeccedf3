"""Words merged from tokens, two pictures side by side, notes and phones, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver import Chrome

from regard.insight.panels.base import Panel
from regard.insight.picture import History, Picture, Snapshot

Show = Callable[..., Chrome]
Array = npt.NDArray[Any]
MergeWords = Callable[..., Array]

# Shown with four decimals, and sent in 16 bits.
TOLERANCE = 6e-5


def test_only_tables_scroll_at_phone_width(
    show: Show, hands: Any, browser: Chrome, emulated: Callable[..., None], rich: Picture
) -> None:
    emulated(browser, 360, 740)
    show(History((Snapshot("", (rich, replace(rich, title="long" * 40))),)))
    for view in hands.views():
        hands.script("location.hash = `view=${arguments[0]}&step=2`", view)
        card = {"overview": "lines"}.get(view, view)
        assert hands.find(f"#{card}-card-2").is_displayed()
        assert hands.script("return document.documentElement.scrollWidth") <= 360, view


def test_notes_are_shown_as_text(show: Show, hands: Any, rich: Picture, picture: Picture) -> None:
    show(rich)
    assert hands.texts("[data-notes] li") == list(rich.notes)
    show(picture)
    assert not hands.find("[data-notes]").is_displayed()


def test_tokens_are_merged_into_words_on_request(
    show: Show, hands: Any, rich: Picture, merge_words: MergeWords, picture: Picture
) -> None:
    show(rich, "#panel=cross&layer=2&map=2&pin=query-4")
    panel = rich.panel("cross")
    np.testing.assert_allclose(hands.table("heat-map"), panel.weights[1, 1], atol=TOLERANCE)
    hands.find("#merge").click()
    assert hands.address()["words"] == "merged"
    expected = merge_words(panel.weights[1, 1], panel.query_words, panel.key_words)
    np.testing.assert_allclose(hands.table("heat-map"), expected, atol=TOLERANCE)
    assert hands.texts("#queries .token") == ["<s>", "L'", "animal", "fatigué"]
    assert hands.texts("#keys .token") == ["The", "animal", "was", "tired"]
    # The pinned token is now part of a word, and so is the prediction.
    assert hands.find('button[data-query="2"]').get_attribute("aria-pressed") == "true"
    for card in ("#queries", "#heat-map"):
        assert hands.texts(f"{card} [data-predicts] bdi") == ["L'", "ani", "fati", "</s>"]
    drawn = hands.script(
        "return [...document.querySelectorAll('#threads path')].map(({dataset: d}) => "
        "[d.head, d.query, d.key, d.weight].map(Number))"
    )
    by_head = merge_words(panel.weights[1], panel.query_words, panel.key_words)
    assert {query for _, query, _, _ in drawn} == {2}
    for head, query, key, weight in drawn:
        assert weight == pytest.approx(by_head[int(head), int(query), int(key)], abs=TOLERANCE)
    hands.find("#merge").click()
    assert hands.table("heat-map").shape == (6, 6)
    assert hands.address()["pin"] == "query-4"
    show(picture)
    assert not hands.find("#merge").is_displayed()


def test_two_pictures_are_shown_side_by_side(show: Show, hands: Any, rich: Picture) -> None:
    tokens = ("a", "b")
    small = Panel("encoder", "Encoder", tokens, tokens, np.full((1, 2, 2, 2), 0.5, np.float32))
    other = Picture("another", "smaller", "a b", "", (small,))
    show(History((Snapshot("", (rich, other)),)), "#layer=2&heads=1,3&map=3")
    left, right = (hands.find(f"#{part}") for part in ("lines-card", "lines-card-2"))
    assert left.rect["x"] + left.rect["width"] <= right.rect["x"]
    assert hands.texts(".story h2") == ["runs/rich", "another"]
    assert hands.texts("[data-source]") == [rich.source, "a b"]
    np.testing.assert_allclose(
        hands.table("heat-map"), rich.panel("encoder").weights[1, 2], atol=TOLERANCE
    )
    # The other picture has one layer and two heads: it shows its last ones.
    np.testing.assert_allclose(hands.table("heat-map-2"), small.weights[0, 1], atol=TOLERANCE)
    heads = hands.script(
        "return [...document.querySelectorAll('#threads-2 path')].map(p => p.dataset.head)"
    )
    assert set(heads) == {"0"}
    hands.choose("layer", 0)
    np.testing.assert_allclose(
        hands.table("heat-map"), rich.panel("encoder").weights[0, 2], atol=TOLERANCE
    )
    hands.hover('#keys-2 button[data-key="1"]')
    assert hands.status().startswith("layer 1, head 1: “b” is attended to most by “a” 0.5000")
    hands.find('#queries button[data-query="1"]').click()
    hands.hover("h1")
    assert "left: layer 1" in hands.status()
    assert "right: layer 1" in hands.status()
    assert hands.find('#queries-2 button[data-query="1"]').get_attribute("aria-pressed") == "true"
    hands.choose("view", "one-head")
    assert hands.find("#one-head-card").is_displayed()
    assert hands.find("#nothing-2").is_displayed()
    ids = hands.script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert hands.address()["view"] == "one-head"
