"""Contract of every view of the page: found by its file, it opens, draws, is named and is saved.

The numbers of a view are compared with the tensors in a test file of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from regard.insight.picture import Picture
from regard.insight.views.base import View, all_views
from regard.insight.watch import POINTS

Show = Callable[..., Chrome]

# Visible text of the view whose contrast is measured, beside its heading.
TEXTS = ".explain, th, td, h3, .equation, .probability, tbody button"


def cards(view: View) -> list[str]:
    return list(view.cards) or [view.kind()]


@pytest.mark.parametrize("view", all_views(), ids=lambda view: view.kind())
def test_every_view_declares_title_order_points_and_script(view: View) -> None:
    assert view.title
    assert view.question.endswith("?")
    assert view.points <= set(POINTS)
    assert view.compute.__doc__
    if not view.cards:
        assert f'CARDS["{view.kind()}"] = {{' in view.script()
    assert set(cards(view)) <= {other.kind() for other in all_views()}


def test_titles_and_orders_differ() -> None:
    for attribute in ("title", "order"):
        values = [getattr(view, attribute) for view in all_views()]
        assert len(set(values)) == len(values), attribute


@pytest.mark.parametrize("view", all_views(), ids=lambda view: view.kind())
def test_every_view_has_a_test_of_its_numbers(view: View) -> None:
    if not view.cards:
        name = f"test_{view.kind().replace('-', '_')}.py"
        assert (Path(__file__).parent / name).exists(), f"add tests/insight/views/{name}"


def test_menu_offers_views_with_something_to_show(
    show: Show, hands: Any, rich: Picture, picture: Picture
) -> None:
    show(rich)
    assert hands.views() == [view.kind() for view in all_views()]
    assert hands.texts("#views label") == [view.title for view in all_views()]
    show(picture)
    assert hands.views() == ["overview", "lines", "heat-map", "all-heads", "alignment"]
    show(replace(picture, panels=picture.panels[:1]), "#view=alignment")
    assert hands.views() == ["overview", "lines", "heat-map", "all-heads"]
    assert hands.find(".lines-card").is_displayed()
    keyboard = " ".join(hands.texts("#help li"))
    assert all(view.keyboard in keyboard for view in all_views())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_opens_draws_is_labeled_and_readable(
    show: Show,
    hands: Any,
    browser: Chrome,
    emulated: Callable[..., None],
    rich: Picture,
    scheme: str,
) -> None:
    emulated(browser, scheme=scheme, motion="reduce")
    show(rich)
    for view in reversed(all_views()):
        hands.choose("view", view.kind())
        assert hands.address()["view"] == view.kind()
        shown = [card for card in hands.all(".card") if card.is_displayed()]
        assert [card.get_attribute("id") for card in shown] == [f"{c}-card" for c in cards(view)]
        titles = {other.kind(): other.title for other in all_views()}
        assert [card.accessible_name for card in shown] == [titles[name] for name in cards(view)]
        assert hands.status() != ""
        for name in cards(view):
            assert hands.script(
                "return document.querySelectorAll(`#${arguments[0]}-card :is(td, path, canvas)`)"
                ".length",
                name,
            ), view.kind()
            assert hands.contrast(f"#{name}-title") >= 4.5
            for ratio in hands.contrasts(f"#{name}-card", TEXTS):
                assert ratio >= 4.5, view.kind()


def test_every_view_can_be_exported(show: Show, hands: Any, rich: Picture) -> None:
    show(rich)
    for view in all_views():
        hands.choose("view", view.kind())
        saved = hands.exported()
        assert saved["svg"].startswith("<svg"), view.kind()
        assert saved["svg"].count("<") > 10
        assert set(cards(view)) <= set(saved["data"]["pictures"][0])
