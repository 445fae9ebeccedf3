"""Attention entropy: computed from the weights, and shown in bits."""

from typing import Any

import numpy as np
import pytest
import torch
from selenium.webdriver import Keys

from regard.data.tokenizers import bpe
from regard.insight.look import look
from regard.insight.picture import Picture
from regard.insight.views.entropy import mean_entropy
from regard.insight.watch import watch
from regard.models.base import ModelSpec
from regard.predictors.generator import TextGenerator

TEXT = "the cat sleeps under the trees"


def test_mean_entropy_of_known_weights() -> None:
    weights = np.zeros((1, 3, 2, 4), np.float32)
    weights[0, 0] = 0.25  # all keys alike: log₂ 4
    weights[0, 1, 0] = [1, 0, 0, 0]  # one key
    weights[0, 1, 1] = [0.5, 0.5, 0, 0]
    bits = mean_entropy(weights)
    np.testing.assert_allclose(bits[0, :2], [2, 0.5])
    assert np.isnan(bits[0, 2])  # attends to nothing
    weights[0, 1, 0] = 0  # a query without keys does not count
    np.testing.assert_allclose(mean_entropy(weights)[0, 1], 1)


def test_entropy_of_a_model_is_that_of_its_recorded_weights() -> None:
    torch.manual_seed(1)
    tokenizer = bpe.Spec(vocabulary=300).train([TEXT] * 3, ["en"])
    spec = {"kind": "language-model", "dim": 16, "heads": 2, "layers": 2, "max_length": 40}
    model = ModelSpec.model_validate(spec).build(len(tokenizer)).eval()
    writer = TextGenerator(model, tokenizer, 40)
    with torch.no_grad(), watch(model, {"weights"}) as seen:
        model(torch.tensor([writer.encode(TEXT)]))
    picture = look(writer, TEXT)
    (entropy,) = picture.views["entropy"].panels
    for layer in range(2):
        weights = seen.weights(f"decoder.blocks.{layer}.attention")[0].double()
        rows = torch.distributions.Categorical(probs=weights).entropy() / np.log(2)
        np.testing.assert_allclose(entropy.bits[layer], rows.mean(-1), atol=1e-5)
    assert entropy.largest == pytest.approx(np.log2(len(picture.panels[0].keys)))


def test_cells_are_the_entropies(show: Any, hands: Any, rich: Picture) -> None:
    show(rich, "#view=entropy&panel=cross")
    weights = rich.panel("cross").weights.astype(np.float64)
    expected = -(weights * np.log2(weights)).sum(-1).mean(-1)
    shown = np.reshape(hands.numbers("#entropy td", "bits"), expected.shape)
    np.testing.assert_allclose(shown, expected, atol=6e-5)
    hands.focus('#entropy td[tabindex="0"]')
    hands.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert hands.status() == f"layer 2, head 2: {expected[1, 1]:.4f} bits"
