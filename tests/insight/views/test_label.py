"""What bears on the label: kinds of pooling, removed words, and models without attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from selenium.webdriver import Chrome

from regard.data.tokenizers import word
from regard.insight.look import look
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier

Show = Callable[..., Chrome]
TEXT = "the plot is not clever at all"
SIZES = {"dim": 16, "layers": 2, "dropout": 0.0}
TRANSFORMER = {"kind": "classifier", **SIZES, "heads": 2, "ffn_dim": 16, "max_length": 40}


def build(**settings: Any) -> Classifier:
    tokenizer = word.Spec(vocabulary=300).train([TEXT])
    torch.manual_seed(5)
    model = ModelSpec.model_validate(settings).build(len(tokenizer)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return Classifier(model, tokenizer, ["bad", "fair", "good"][: model.output.out_features], 40)


@pytest.mark.parametrize("pooling", ["mean", "first", "max", "attention"])
def test_pooling_weights_and_flow_are_shares(pooling: str) -> None:
    loaded = build(**TRANSFORMER, pooling=pooling, classes=3)
    evidence = look(loaded, TEXT).views["label"]
    assert evidence.words == ("<s>", *TEXT.split(), "</s>")
    assert evidence.pooling.sum() == pytest.approx(1, abs=1e-4)
    assert evidence.flow.sum() == pytest.approx(1, abs=1e-4)
    if pooling == "mean":
        assert np.allclose(evidence.pooling, 1 / 9)
    if pooling == "first":
        assert evidence.pooling.tolist() == [1, *[0] * 8]


def test_probability_without_a_word_is_that_of_the_shorter_text() -> None:
    loaded = build(**TRANSFORMER, classes=3)
    evidence = look(loaded, TEXT).views["label"]
    words = TEXT.split()
    whole = loaded.classify([TEXT])[0]
    assert (evidence.label, evidence.probability) == (
        whole.label,
        pytest.approx(whole.probability, abs=1e-5),
    )
    assert np.isnan(evidence.without[[0, -1]]).all()
    for index, _ in enumerate(words):
        shorter = " ".join(words[:index] + words[index + 1 :])
        other = loaded.classify([shorter])[0].probabilities[whole.label]
        assert evidence.without[index + 1] == pytest.approx(other, abs=1e-5)
        odds = [np.log(p / (1 - p)) for p in (whole.probability, other)]
        assert evidence.change[index + 1] == pytest.approx(odds[0] - odds[1], abs=1e-4)


def test_page_shows_the_label_and_the_word_it_depends_on_most(show: Show, hands: Any) -> None:
    picture = look(build(**TRANSFORMER, pooling="attention"), TEXT)
    evidence = picture.views["label"]
    show(picture, "#view=label")
    best = int(np.nanargmax(evidence.change))
    assert hands.status() == (
        f"“{evidence.label}” {100 * evidence.probability:.1f} %: without “{evidence.words[best]}” "
        f"it is {100 * evidence.without[best]:.1f} %"
    )
    assert hands.texts("#label tbody th") == list(evidence.words)
    assert hands.exported()["data"]["pictures"][0]["label"]["words"] == list(evidence.words)


def test_models_without_attention_have_pooling_and_removal(show: Show, hands: Any) -> None:
    loaded = build(kind="recurrent", capability="sequence-classification", **SIZES)
    picture = look(loaded, TEXT)
    assert picture.views["label"].flow is None
    show(picture, "#view=label")
    assert hands.texts("#label thead th") == [
        "word",
        "pooling weight",
        "probability without it",
        "log-odds lost without it",
    ]
