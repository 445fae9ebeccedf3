"""Word alignment by the cross-attention."""

import numpy as np
import pytest
import torch

from regard.data.config import Direction
from regard.data.tokenizers import word
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.insight import alignment
from regard.insight.alignment import Link, align, align_parts
from regard.models.base import ModelSpec
from regard.predictors.translator import Translator

TEXT = ["the red cat sleeps well", "le chat rouge dort bien"]


def with_layers(layers: int) -> Translator:
    tokenizer = word.Spec(vocabulary=300).train(TEXT, ["en", "fr"])
    torch.manual_seed(4)
    spec = {"kind": "encoder-decoder", "dim": 16, "heads": 2, "ffn_dim": 16, "layers": layers}
    model = ModelSpec.model_validate(spec).build(len(tokenizer))
    ways = [Direction("en", "fr"), Direction("fr", "en")]
    return Translator(model, tokenizer, LanguageIdentifier({"en": {}, "fr": {}}), 12, ways)


@pytest.fixture
def translator() -> Translator:
    return with_layers(2)


def test_words_are_aligned_to_the_largest_weight(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set the weights: the language tag and the end of the source do not count."""
    weights = np.zeros((6, 7), dtype=np.float32)  # 5 words and the end; tag, 5 words, end
    for target, source in enumerate([0, 2, 1, 3, 4]):
        weights[target, 1 + source] = 0.6
        weights[target, 0] = 0.9  # the tag is not a word
    monkeypatch.setattr(alignment, "_weights", lambda *_: weights)
    links = align(translator, *TEXT, to="fr")
    assert [str(link) for link in links] == ["0-0", "2-1", "1-2", "3-3", "4-4"]
    assert all(link.weight == pytest.approx(1) for link in links)


def test_alignment_uses_the_weights_of_the_model(translator: Translator) -> None:
    links = align(translator, *TEXT, to="fr")
    assert [link.target for link in links] == [0, 1, 2, 3, 4]
    assert all(0 <= link.source < 5 and 0.2 <= link.weight <= 1 for link in links)
    assert isinstance(links[0], Link)


def test_words_are_counted_through_a_line_in_parts(translator: Translator) -> None:
    (found,) = translator.candidates([" ".join(TEXT[0] for _ in range(4))], to="fr")
    assert len(found[0].segments) > 1
    links = align_parts(translator, found[0], to="fr")
    assert [link.target for link in links] == list(range(len(found[0].text.split())))
    assert all(link.source < 20 for link in links)


@pytest.mark.parametrize("layers", [2, 3])
def test_layer_is_the_last_but_one_and_of_two_layers_the_last(layers: int) -> None:
    translator = with_layers(layers)
    assert align(translator, *TEXT, to="fr") == align(translator, *TEXT, to="fr", layer=1)
    assert align(translator, *TEXT, to="fr") != align(translator, *TEXT, to="fr", layer=0)
