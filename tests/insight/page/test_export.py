"""Export of a view: drawings and numbers as downloaded files."""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from selenium.webdriver import Chrome

from regard.insight.panels.base import Panel
from regard.insight.picture import History, Picture, Snapshot

Show = Callable[..., Chrome]
Save = Callable[[str], Path]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def save(browser: Chrome, hands: Any, tmp_path: Path) -> Save:
    """Return a function that presses a button and returns the downloaded file."""
    folder = tmp_path / "saved"
    folder.mkdir()
    where = {"behavior": "allow", "downloadPath": str(folder)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", where)

    def press(kind: str) -> Path:
        before = set(folder.iterdir())
        button = hands.find(f'[data-save="{kind}"]')
        # Not covered by the status line.
        hands.script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        for _ in range(200):
            new = [path for path in set(folder.iterdir()) - before if path.suffix == f".{kind}"]
            if new and new[0].stat().st_size > 0:
                return new[0]
            time.sleep(0.05)
        pytest.fail(f"no {kind} was saved")

    return press


def test_svg_of_lines_and_heat_map_has_the_weights(
    show: Show, hands: Any, save: Save, rich: Picture
) -> None:
    show(rich, "#panel=encoder&layer=2&heads=1,2&map=mean")
    path = save("svg")
    assert path.name == "overview-encoder-layer-2.svg"
    assert hands.status() == "Saved as overview-encoder-layer-2.svg."
    drawing = ElementTree.parse(path).getroot()
    weights = rich.panel("encoder").weights[1]
    drawn = {
        tuple(int(line.attrib[f"data-{part}"]) for part in ("head", "query", "key")): line
        for line in drawing.iter(f"{SVG}path")
    }
    expected = [tuple(int(i) for i in place) for place in np.argwhere(weights[:2] >= 0.01)]
    assert sorted(drawn) == expected
    for (head, query, key), line in drawn.items():
        assert float(line.attrib["data-weight"]) == pytest.approx(
            weights[head, query, key], abs=6e-5
        )
    mean = weights[:2].mean(axis=0)
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    cells = [f"{value:.2f}" for value in mean.ravel()]
    numbers = [text for text in texts if text in set(cells)]
    np.testing.assert_allclose([float(n) for n in numbers], mean.ravel(), atol=0.0051)
    boxes = list(drawing.iter(f"{SVG}rect"))[1:]
    shown = [float(box.attrib["fill-opacity"]) for box in boxes]
    np.testing.assert_allclose(shown, 0.72 * mean.ravel() ** 0.7, atol=2e-4)
    assert texts.count("tir") == 4  # on both sides of the lines, and of the map


def test_json_has_the_weights(show: Show, save: Save, rich: Picture) -> None:
    show(rich, "#panel=cross&layer=1&view=heat-map&map=3")
    path = save("json")
    assert path.name == "heat-map-cross-layer-1.json"
    (shown,) = json.loads(path.read_text(encoding="utf-8"))["pictures"]
    panel = rich.panel("cross")
    np.testing.assert_allclose(shown["heat-map"]["weights"], panel.weights[0, 2], atol=1.5e-5)
    assert shown["heat-map"]["queries"] == list(panel.queries)
    assert shown["heat-map"]["mean_of_heads"] == [3]
    assert shown["where"] == "Cross-attention, layer 1, head 3"


def test_png_is_the_svg_in_pixels(show: Show, save: Save, rich: Picture) -> None:
    show(rich, "#view=alignment&layer=1")
    root = ElementTree.parse(save("svg")).getroot()
    raw = save("png").read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", raw[16:24])
    assert (width, height) == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))
    # It is not an empty image.
    chunks, place = b"", 8
    while place < len(raw):
        (size,) = struct.unpack(">I", raw[place : place + 4])
        if raw[place + 4 : place + 8] == b"IDAT":
            chunks += raw[place + 8 : place + 8 + size]
        place += 12 + size
    assert len(set(zlib.decompress(chunks))) > 20


@pytest.mark.parametrize(
    "view", ["all-heads", "one-head", "rollout", "alignment", "logit-lens", "steps"]
)
def test_exports_of_a_view_have_its_numbers(
    show: Show, save: Save, rich: Picture, view: str
) -> None:
    show(rich, f"#view={view}&layer=1&map=1&pin=query-2&step=3")
    drawing = ElementTree.parse(save("svg")).getroot()
    texts = " ".join(text.text or "" for text in drawing.iter(f"{SVG}text"))
    data = json.loads(save("json").read_text(encoding="utf-8"))["pictures"][0][view]
    panel, steps = rich.panel("encoder"), rich.views["steps"].panels[0]
    if view == "all-heads":
        assert len(list(drawing.iter(f"{SVG}image"))) == len(data["heads"]) == 6
    if view == "one-head":
        assert panel.scores is not None
        shown = [row["score"] for row in data["rows"]]
        np.testing.assert_allclose(shown, panel.scores[0, 0, 1], rtol=1e-5)
        assert all(f"{score:.4f}".replace("-", "−") in texts for score in shown)
    if view == "rollout":
        shares = rich.views["rollout"].rollouts[0].shares[:, 1]
        np.testing.assert_allclose(data["shares_after_layer"], shares, atol=1.5e-5)
        assert f"{shares[1, 1]:.2f}" in texts
    if view == "alignment":
        assert data["targets"] == ["L'", "animal", "fatigué", "</s>"]
        assert len(list(drawing.iter(f"{SVG}rect"))) == 1 + 4 * 4
    if view == "logit-lens":
        assert "p120" in texts
        assert data["predictions"][1][2][0][0] == "p120"
    if view == "steps":
        np.testing.assert_allclose(data["vectors"][0]["values"], steps.queries[0, 0, 1], rtol=1e-5)
        dots = [row["numbers"][0]["value"] for row in data["rows"]]
        np.testing.assert_allclose(dots, steps.keys[0, 0] @ steps.queries[0, 0, 1], atol=1e-5)


def test_exports_of_hostile_tokens_and_two_pictures_are_well_formed(
    show: Show, save: Save, make_attention: Callable[..., Any]
) -> None:
    words = ("<script>", "a&b", 'say "x"', "\x07", "/../é")
    panel = Panel("../../p", "<P>", words, words, make_attention(3, 1, 2, 5, 5))
    two = tuple(Picture(f"<{i}>", "", "&", "", (panel,)) for i in range(2))
    show(History((Snapshot("", two),)))
    path = save("svg")
    assert path.name == "overview-p-layer-1.svg"
    texts = [text.text for text in ElementTree.parse(path).getroot().iter(f"{SVG}text")]
    assert texts.count("<script>") == 8
    assert "<0>" in texts
    assert "<1>" in texts
    assert len(json.loads(save("json").read_text(encoding="utf-8"))["pictures"]) == 2
