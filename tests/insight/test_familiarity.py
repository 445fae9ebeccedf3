"""Texts unlike the training text: unknown words, and many tokens a word."""

import pytest
import torch

from regard.data.config import Direction
from regard.data.tokenizers import bpe, word
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.insight.familiarity import unlike_training
from regard.insight.look import look
from regard.models.base import ModelSpec
from regard.predictors.generator import TextGenerator
from regard.predictors.translator import Translator

ENGLISH = "the old animal did not cross the wide street because it was too tired"
FRENCH = "le vieil animal n'a pas traversé la large rue parce qu'il était trop fatigué"
SIZES = {"dim": 16, "heads": 2, "ffn_dim": 16, "layers": 1, "dropout": 0.0, "max_length": 200}


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = bpe.Spec(vocabulary=600).train([ENGLISH, FRENCH] * 5, ["en", "fr"])
    torch.manual_seed(1)
    model = ModelSpec.model_validate({"kind": "encoder-decoder", **SIZES}).build(len(tokenizer))
    guess = LanguageIdentifier.learn(
        {"fr": [tokenizer.encode(FRENCH)], "en": [tokenizer.encode(ENGLISH)]}
    )
    loaded = Translator(model, tokenizer, guess, 100, [Direction("en", "fr")])
    loaded.tokens_per_word = 1.0
    return loaded


@pytest.mark.parametrize("text", [ENGLISH, FRENCH, "the street was too wide", "the tired street"])
def test_text_like_the_training_text_is_not_flagged(translator: Translator, text: str) -> None:
    assert unlike_training(translator, text) is None
    assert look(translator, text, "fr").warnings == ()


def test_many_tokens_a_word_are_flagged(translator: Translator) -> None:
    text = "der herd steht draussen"
    warning = unlike_training(translator, text)
    assert warning is not None
    assert "tokens a word, where the training text has 1.0" in warning
    assert warning.endswith("This model has seen only en and fr text like its training text.")
    assert look(translator, text, "fr").warnings == (warning,)


def test_one_rare_word_among_known_ones_is_not_flagged(translator: Translator) -> None:
    assert unlike_training(translator, f"{ENGLISH} outside") is None


def test_words_without_tokens_are_named(translator: Translator) -> None:
    warning = unlike_training(translator, "the 猫 cross the street")
    assert warning is not None
    assert "the vocabulary has no tokens for “猫”" in warning


def test_unknown_words_of_a_word_vocabulary_are_named() -> None:
    tokenizer = word.Spec(vocabulary=400).train([ENGLISH])
    model = ModelSpec.model_validate({"kind": "language-model", **SIZES}).build(len(tokenizer))
    loaded = TextGenerator(model, tokenizer, 100)
    assert unlike_training(loaded, ENGLISH) is None
    warning = unlike_training(loaded, "what a waste of time now is")
    assert warning is not None
    assert "“what”, “a”, “waste”, “of”, “time” and 2 more" in warning
    assert warning.endswith("This model has seen only text like its training text.")
