"""Regard: train, inspect and serve Transformers.

    import regard

    translator = regard.load_translator("runs/demo")
    translator.translate(["The animal didn't cross the street."], to="fr")

Names are imported when first used, so that `import regard` and `regard --help` stay instant.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.missing_modules import required_by
from regard.native.amx import avoid_broken_amx

# Torch's threads spin for milliseconds while they wait for each other. Where another program has
# one of the cores, they then wait for a thread that cannot run: training beside one such program
# took 20 times as long. Read when torch is first imported; costs nothing where cores are free.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

avoid_broken_amx()  # before torch multiplies its first matrices

if TYPE_CHECKING:
    from regard.api import resume, train
    from regard.decoding.config import DecodingConfig
    from regard.decoding.sampling import Sampling
    from regard.decoding.scoring import Score
    from regard.errors import RegardError
    from regard.insight.watch import watch
    from regard.loading import (
        load,
        load_classifier,
        load_embedder,
        load_language_model,
        load_mask_filler,
        load_span_filler,
        load_summarizer,
        load_translator,
    )
    from regard.models.base import ModelSpec
    from regard.predictors.classifier import Classifier, Prediction
    from regard.predictors.embedder import Embedder
    from regard.predictors.generator import TextGenerator
    from regard.predictors.mask_filler import Filling, MaskFiller
    from regard.predictors.predictor import Predictor
    from regard.predictors.span_filler import SpanFiller
    from regard.predictors.summarizer import Summarizer, Summary
    from regard.predictors.translator import Translation, Translator
    from regard.predictors.zero_shot import ZeroShotClassifier
    from regard.training.recipe import Recipe, read_recipe

_MODULES = {
    "Classifier": "regard.predictors.classifier",
    "DecodingConfig": "regard.decoding.config",
    "Embedder": "regard.predictors.embedder",
    "Filling": "regard.predictors.mask_filler",
    "MaskFiller": "regard.predictors.mask_filler",
    "ModelSpec": "regard.models.base",
    "Prediction": "regard.predictors.classifier",
    "Predictor": "regard.predictors.predictor",
    "Recipe": "regard.training.recipe",
    "RegardError": "regard.errors",
    "Sampling": "regard.decoding.sampling",
    "Score": "regard.decoding.scoring",
    "SpanFiller": "regard.predictors.span_filler",
    "Summarizer": "regard.predictors.summarizer",
    "Summary": "regard.predictors.summarizer",
    "TextGenerator": "regard.predictors.generator",
    "Translation": "regard.predictors.translator",
    "Translator": "regard.predictors.translator",
    "ZeroShotClassifier": "regard.predictors.zero_shot",
    "load": "regard.loading",
    "load_classifier": "regard.loading",
    "load_embedder": "regard.loading",
    "load_language_model": "regard.loading",
    "load_mask_filler": "regard.loading",
    "load_span_filler": "regard.loading",
    "load_summarizer": "regard.loading",
    "load_translator": "regard.loading",
    "read_recipe": "regard.training.recipe",
    "resume": "regard.api",
    "train": "regard.api",
    "watch": "regard.insight.watch",
}

__version__ = "0.1.0"
__all__ = [
    "Classifier",
    "DecodingConfig",
    "Embedder",
    "Filling",
    "MaskFiller",
    "ModelSpec",
    "Prediction",
    "Predictor",
    "Recipe",
    "RegardError",
    "Sampling",
    "Score",
    "SpanFiller",
    "Summarizer",
    "Summary",
    "TextGenerator",
    "Translation",
    "Translator",
    "ZeroShotClassifier",
    "load",
    "load_classifier",
    "load_embedder",
    "load_language_model",
    "load_mask_filler",
    "load_span_filler",
    "load_summarizer",
    "load_translator",
    "read_recipe",
    "resume",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    with required_by(f"regard.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
