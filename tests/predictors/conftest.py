"""A translator and language models with random weights."""

import pytest
import torch

from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.models.base import ModelSpec
from regard.predictors.generator import TextGenerator
from regard.predictors.translator import Translator

TEXT = [
    "A dog runs over the grass near 12 trees.",
    "Two men sit on a bench and read the paper.",
    "Un chien court sur l'herbe, près de 12 arbres.",
    "Deux hommes sont assis sur un banc et lisent le journal.",
    "The girl has a red ball; the boy has none.",
]


def random_model(kind: str, vocabulary: int, seed: int = 1, **settings: object) -> torch.nn.Module:
    torch.manual_seed(seed)
    sizes = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 40}
    spec = ModelSpec.model_validate({"kind": kind, **sizes, **settings})
    model = spec.build(vocabulary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return model.eval()


@pytest.fixture(scope="session")
def tokenizer():
    return bpe.Spec(vocabulary=400).train(TEXT)


@pytest.fixture
def translator(tokenizer) -> Translator:
    model = random_model("encoder-decoder", len(tokenizer), seed=5)
    language_identifier = LanguageIdentifier({"fr": {}, "en": {}})
    return Translator(model, tokenizer, language_identifier, 40, [Direction("fr", "en")])


@pytest.fixture
def generator(tokenizer) -> TextGenerator:
    return TextGenerator(
        random_model("language-model", len(tokenizer), max_length=120), tokenizer, 120
    )
