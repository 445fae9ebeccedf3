"""Attention masks: on the page, in the written file, and after downsampling."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.tokenizers import bpe
from regard.insight.downsample import downsample
from regard.insight.look import look
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier
from regard.predictors.generator import TextGenerator

TEXT = "the cat sleeps under the trees and the bird sings in them"
SIZES = {"dim": 16, "heads": 2, "ffn_dim": 16, "layers": 2, "dropout": 0.0, "max_length": 200}


def picture_of(attention: dict[str, object], text: str = TEXT) -> Picture:
    """Return the picture of a language model, or of a classifier for encoder attention."""
    torch.manual_seed(1)
    tokenizer = bpe.Spec(vocabulary=300).train([TEXT] * 3, ["en"])
    is_encoder = attention["kind"] == "bigbird"
    kind = "classifier" if is_encoder else "language-model"
    spec = ModelSpec.model_validate({"kind": kind, **SIZES, "attention": attention})
    model = spec.build(len(tokenizer)).eval()
    if is_encoder:
        return look(Classifier(model, tokenizer, ["bad", "good"], 200), text)
    return look(TextGenerator(model, tokenizer, 200), text)


def window(tokens: int, size: int) -> np.ndarray:
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    return (distance >= 0) & (distance <= size)


def test_cells_outside_the_window_are_hatched_and_counted(show, hands) -> None:
    picture = picture_of({"kind": "window", "size": 2})
    panel = picture.panels[0]
    expected = window(len(panel.queries), 2)
    assert (panel.may_attend == expected).all()
    show(picture, "#view=heat-map&map=2&layer=1")
    masked = hands.script(
        "const cells = [...document.querySelectorAll('#heat-map td')]; "
        "return cells.map(cell => 'masked' in cell.dataset)"
    )
    assert masked == (~expected).ravel().tolist()
    shown = np.reshape(hands.numbers("#heat-map td", "weight"), expected.shape)
    assert np.allclose(shown, panel.weights[0, 1], atol=6e-5)
    percent = float(f"{100 * expected.mean():.2g}")
    text = f"Hatched cells are masked: this layer attends to {percent:g} % of all pairs."
    assert hands.find("#map-mask").text == text
    hands.hover('#heat-map td[data-query="5"][data-key="1"]')
    assert hands.status().endswith("masked")
    show(picture, "#view=lines&layer=1")
    queries, keys = (hands.numbers("#threads path", side) for side in ("query", "key"))
    assert len(queries) > 10
    assert expected[np.int_(queries), np.int_(keys)].all()


def test_merged_words_are_masked_where_all_their_tokens_are(show, hands) -> None:
    picture = picture_of({"kind": "block-local", "size": 4})
    panel = picture.panels[0]
    assert panel.may_attend is not None
    words = np.zeros([max(panel.query_words) + 1] * 2, dtype=bool)
    for query, key in np.argwhere(panel.may_attend[0]):
        words[panel.query_words[query], panel.key_words[key]] = True
    assert not words.all()
    assert len(words) < len(panel.queries)
    show(picture, "#view=heat-map&words=merged")
    masked = hands.script(
        "const cells = [...document.querySelectorAll('#heat-map td')]; "
        "return cells.map(cell => 'masked' in cell.dataset)"
    )
    assert masked == (~words).ravel().tolist()


def test_masked_cells_of_a_long_text_are_gray_in_every_layer(show, hands) -> None:
    """Alternating layers have different masks; each reads its own among the written weights."""
    kinds = [{"kind": "window", "size": 3}, "fused"]
    picture = picture_of({"kind": "alternating", "pattern": kinds}, " ".join([TEXT] * 6))
    panel = picture.panels[0]
    words = len(panel.queries)
    assert words > 100  # drawn on a canvas
    for layer, may_attend in enumerate((window(words, 3), window(words, words))):
        show(picture, f"#view=heat-map&map=2&layer={layer + 1}")
        percent = float(f"{100 * may_attend.mean():.2g}")
        assert f"Gray cells are masked: this layer attends to {percent:g} %" in (
            hands.find("#map-mask").text
        )
        # Masked cells are opaque; a cell is 16 pixels wide.
        alphas = hands.script(
            "const c = document.getElementById('wide-canvas'); "
            "const { data } = c.getContext('2d').getImageData(104, 96, 320, 320); "
            "const to20 = [...Array(20).keys()]; "
            "return to20.map(q => to20.map(k => data[((16 * q + 8) * 320 + 16 * k + 8) * 4 + 3]))"
        )
        assert ((np.array(alphas) == 255) == ~may_attend[:20, :20]).all()
        for query, key in ((0, 0), (9, 7), (9, 2), (15, 14), (12, 13)):
            hands.script(
                "const [x, y] = arguments; const box = document.getElementById('wide-scroll'); "
                "const edge = box.getBoundingClientRect(); box.dispatchEvent(new MouseEvent("
                "'mousemove', {clientX: edge.left + x, clientY: edge.top + y}))",
                104 + 16 * key + 8,
                96 + 16 * query + 8,
            )
            weight = f"{panel.weights[layer, 1, query, key]:.4f}"
            assert hands.status().endswith(weight if may_attend[query, key] else "masked")


def test_thumbnails_show_the_mask(show, hands) -> None:
    picture = picture_of({"kind": "bigbird", "block": 2, "window": 1, "global": 1, "random": 1})
    [panel] = picture.panels
    assert panel.may_attend is not None
    assert 0.1 < panel.may_attend.mean() < 0.6
    show(picture, "#view=all-heads")
    alphas = hands.script(
        "const c = document.querySelector('#all-heads canvas'); "
        "const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height); "
        "return [...Array(c.width * c.height).keys()].map(i => data[4 * i + 3])"
    )
    assert ((np.array(alphas) == 255) == ~panel.may_attend[0].ravel()).all()


def test_masked_weights_are_not_written() -> None:
    text = " ".join([TEXT] * 6)
    picture = picture_of({"kind": "window", "size": 3}, text)
    [panel] = picture.panels
    whole = replace(panel, may_attend=None)
    sizes = [len(json.dumps(each.to_json()["weights"])) for each in (panel, whole)]
    assert sizes[0] < sizes[1] / 20
    again = Panel.from_json(json.loads(json.dumps(panel.to_json())))
    assert (again.may_attend == panel.may_attend).all()
    assert np.allclose(again.weights, panel.weights, atol=1e-5)
    assert np.array_equal(again.weights, Panel.from_json(whole.to_json()).weights)


def test_downsampled_tokens_may_attend_where_one_of_them_may() -> None:
    picture = picture_of({"kind": "block-local", "size": 4})
    words = len(picture.panels[0].queries)
    [panel] = downsample(picture, max_numbers=2 * 2 * (-(-words // 2)) ** 2).panels
    assert panel.may_attend is not None
    halves = np.arange(-(-words // 2))
    same = (halves[:, None] // 2 == halves // 2) & (halves[:, None] >= halves)
    assert (panel.may_attend == same).all()


def test_weights_at_masked_positions_are_refused() -> None:
    weights = np.full((1, 1, 2, 2), 0.5, np.float32)
    with pytest.raises(ValueError, match="weights at masked positions"):
        Panel("p", "P", ("a", "b"), ("a", "b"), weights, may_attend=np.eye(2, dtype=bool)[None])
