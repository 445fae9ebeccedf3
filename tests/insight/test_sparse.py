"""Where a word may not look there is nothing, on the page as in the file that it is written to."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.tokenizers import bpe
from regard.insight.downsample import bearable
from regard.insight.look import look
from regard.insight.picture import Panel, Picture
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier
from regard.predictors.generator import TextGenerator

TEXT = "the cat sleeps under the trees and the bird sings in them"
SIZES = {"dim": 16, "heads": 2, "ffn_dim": 16, "layers": 2, "dropout": 0.0, "max_length": 200}


def looked(attention: dict[str, object], text: str = TEXT) -> Picture:
    """A writer's picture, or, where the attention is for encoders, that of one who judges."""
    torch.manual_seed(1)
    tokenizer = bpe.Spec(vocabulary=300).train([TEXT] * 3, ["en"])
    judges = attention["kind"] == "bigbird"
    kind = "classifier" if judges else "language-model"
    spec = ModelSpec.model_validate({"kind": kind, **SIZES, "attention": attention})
    model = spec.build(len(tokenizer)).eval()
    if judges:
        return look(Classifier(model, tokenizer, ["bad", "good"], 200), text)
    return look(TextGenerator(model, tokenizer, 200), text)


def window(words: int, size: int) -> np.ndarray:
    apart = np.arange(words)[:, None] - np.arange(words)
    return (apart >= 0) & (apart <= size)


def test_a_window_is_hatched_outside_and_says_how_much_is_looked_at(show, hands) -> None:
    picture = looked({"kind": "window", "size": 2})
    panel = picture.panels[0]
    expected = window(len(panel.queries), 2)
    assert (panel.visible == expected).all()
    show(picture, "#view=map&map=2&layer=1")
    closed = hands.script(
        "return [...document.querySelectorAll('#map td')].map(cell => 'masked' in cell.dataset)"
    )
    assert closed == (~expected).ravel().tolist()
    shown = np.reshape(hands.numbers("#map td", "weight"), expected.shape)
    assert np.allclose(shown, panel.weights[0, 1], atol=6e-5)
    percent = float(f"{100 * expected.mean():.2g}")
    said = f"Hatched cells could not be seen: this layer looks at {percent:g} % of all pairs."
    assert hands.find("#map-hatching").text == said
    hands.hover('#map td[data-query="5"][data-key="1"]')
    assert hands.status().endswith("could not be seen")
    show(picture, "#view=lines&layer=1")
    queries, keys = (hands.numbers("#threads path", side) for side in ("query", "key"))
    assert len(queries) > 10
    assert expected[np.int_(queries), np.int_(keys)].all()


def test_words_of_many_pieces_may_look_where_a_piece_may(show, hands) -> None:
    picture = looked({"kind": "block-local", "size": 4})
    panel = picture.panels[0]
    assert panel.visible is not None
    words = np.zeros([max(panel.query_words) + 1] * 2, dtype=bool)
    for query, key in np.argwhere(panel.visible[0]):
        words[panel.query_words[query], panel.key_words[key]] = True
    assert not words.all()
    assert len(words) < len(panel.queries)
    show(picture, "#view=map&words=merged")
    closed = hands.script(
        "return [...document.querySelectorAll('#map td')].map(cell => 'masked' in cell.dataset)"
    )
    assert closed == (~words).ravel().tolist()


def test_of_many_words_what_is_closed_is_grey_in_every_layer(show, hands) -> None:
    """Layers by turns look at different pairs; each has to find its own among those written."""
    kinds = [{"kind": "window", "size": 3}, "fused"]
    picture = looked({"kind": "alternating", "of": kinds}, " ".join([TEXT] * 6))
    panel = picture.panels[0]
    words = len(panel.queries)
    assert words > 100  # drawn on a canvas
    for layer, places in enumerate((window(words, 3), window(words, words))):
        show(picture, f"#view=map&map=2&layer={layer + 1}")
        percent = float(f"{100 * places.mean():.2g}")
        assert f"Grey cells could not be seen: this layer looks at {percent:g} %" in (
            hands.find("#map-hatching").text
        )
        # Of the first words, each cell 16 pixels wide, whatever is closed is opaque.
        alphas = hands.script(
            "const c = document.getElementById('wide-canvas'); "
            "const { data } = c.getContext('2d').getImageData(104, 96, 320, 320); "
            "const to20 = [...Array(20).keys()]; "
            "return to20.map(q => to20.map(k => data[((16 * q + 8) * 320 + 16 * k + 8) * 4 + 3]))"
        )
        assert ((np.array(alphas) == 255) == ~places[:20, :20]).all()
        for query, key in ((0, 0), (9, 7), (9, 2), (15, 14), (12, 13)):
            hands.script(
                "const [x, y] = arguments; const box = document.getElementById('wide-scroll'); "
                "const edge = box.getBoundingClientRect(); box.dispatchEvent(new MouseEvent("
                "'mousemove', {clientX: edge.left + x, clientY: edge.top + y}))",
                104 + 16 * key + 8,
                96 + 16 * query + 8,
            )
            weight = f"{panel.weights[layer, 1, query, key]:.4f}"
            assert hands.status().endswith(weight if places[query, key] else "could not be seen")


def test_small_pictures_of_heads_show_the_pattern(show, hands) -> None:
    picture = looked({"kind": "bigbird", "block": 2, "window": 1, "global": 1, "random": 1})
    [panel] = picture.panels
    assert panel.visible is not None
    assert 0.1 < panel.visible.mean() < 0.6
    show(picture, "#view=heads")
    alphas = hands.script(
        "const c = document.querySelector('#glance canvas'); "
        "const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height); "
        "return [...Array(c.width * c.height).keys()].map(i => data[4 * i + 3])"
    )
    assert ((np.array(alphas) == 255) == ~panel.visible[0].ravel()).all()


def test_only_what_may_be_looked_at_is_written() -> None:
    text = " ".join([TEXT] * 6)
    picture = looked({"kind": "window", "size": 3}, text)
    [panel] = picture.panels
    whole = replace(panel, visible=None)
    sizes = [len(json.dumps(each.to_json()["weights"])) for each in (panel, whole)]
    assert sizes[0] < sizes[1] / 20
    again = Panel.from_json(json.loads(json.dumps(panel.to_json())))
    assert (again.visible == panel.visible).all()
    assert np.allclose(again.weights, panel.weights, atol=1e-5)
    assert np.array_equal(again.weights, Panel.from_json(whole.to_json()).weights)


def test_words_taken_together_may_look_where_one_of_them_may() -> None:
    picture = looked({"kind": "block-local", "size": 4})
    words = len(picture.panels[0].queries)
    [panel] = bearable(picture, most=2 * 2 * (-(-words // 2)) ** 2).panels
    assert panel.visible is not None
    halves = np.arange(-(-words // 2))
    same = (halves[:, None] // 2 == halves // 2) & (halves[:, None] >= halves)
    assert (panel.visible == same).all()


def test_weights_where_none_may_look_are_refused() -> None:
    weights = np.full((1, 1, 2, 2), 0.5, np.float32)
    with pytest.raises(ValueError, match="weights where none may look"):
        Panel("p", "P", ("a", "b"), ("a", "b"), weights, visible=np.eye(2, dtype=bool)[None])
