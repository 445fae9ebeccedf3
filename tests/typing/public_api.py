"""Types of the public API, as a user's program sees them: checked by `mypy --strict`, never run."""

from collections.abc import Iterator
from typing import assert_type

import numpy as np
import torch
from numpy.typing import NDArray

import regard


def load_any(folder: str) -> list[str]:
    """Loading any task gives a union, which isinstance narrows."""
    predictor = regard.load(folder)
    assert_type(predictor, regard.Predictor)
    if isinstance(predictor, regard.Translator):
        return predictor.translate(["The cat sleeps."], to="fr")
    if isinstance(predictor, regard.TextGenerator):
        return [predictor.generate("The cat")]
    return []


def load_one_task() -> None:
    """Each loader has the exact class of its task."""
    translator = regard.load_translator("runs/demo", bits=8)
    assert_type(translator, regard.Translator)
    assert_type(translator.translate(["The cat sleeps."], to="fr", beam=5), list[str])
    assert_type(translator.candidates(["The cat sleeps."]), list[list[regard.Translation]])
    assert_type(translator.score(["The cat sleeps."], ["Le chat dort."]), list[regard.Score])

    summarizer = regard.load_summarizer("runs/summaries")
    assert_type(summarizer.candidates(["a text"]), list[list[regard.Summary]])

    model = regard.load_language_model("runs/proverbs")
    assert_type(model, regard.TextGenerator)
    assert_type(model.stream("a stitch", sampling=regard.Sampling(top_p=0.9)), Iterator[str])

    classifier = regard.load_classifier("runs/reviews")
    assert_type(classifier.classify(["a good film"]), list[regard.Prediction])
    assert_type(classifier.log_probs(["a good film"]), torch.Tensor)

    zero_shot = regard.ZeroShotClassifier(model, "{text} It was", {"a": " good", "b": " bad"})
    assert_type(zero_shot.classify(["a film"]), list[regard.Prediction])

    assert_type(regard.load_mask_filler("runs/masked").fill("___"), list[list[regard.Filling]])
    assert_type(regard.load_span_filler("runs/spans").fill("___"), list[list[regard.Filling]])
    embedder = regard.load_embedder("runs/encoder", bits=8)
    assert_type(embedder.embed(["a text"]), torch.Tensor)
    assert_type(embedder.vectors(["a text"]), NDArray[np.float32])


def train_and_resume() -> None:
    """Training returns what `load` returns, or None beside the main process."""
    recipe = regard.read_recipe("recipe.yaml", ["training.steps=100"])
    assert_type(recipe, regard.Recipe)
    assert_type(recipe.model, regard.ModelSpec)
    assert_type(regard.train(recipe, "runs/new"), regard.Predictor | None)
    assert_type(regard.resume("runs/new"), regard.Predictor | None)


def decode() -> regard.DecodingConfig:
    return regard.DecodingConfig(beam=5, n_best=2, sampling=None)


def watch(model: torch.nn.Module) -> torch.Tensor:
    with regard.watch(model) as seen:
        model(torch.zeros(1, 1, dtype=torch.long))
    return seen.weights("decoder.blocks.0.attention")
