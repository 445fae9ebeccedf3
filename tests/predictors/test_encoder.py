"""Predictors of encoders: the engine gives torch's results, the same bits in any batch."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.data.sources.labels import LabelsSpec
from regard.data.tokenizers import bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.engine.library import library
from regard.errors import ConfigError
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder, cosines, nearest
from regard.predictors.encoder import batches_by_length
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.zero_shot import ZeroShotClassifier

from .conftest import TEXT, random_model

needs_engine = pytest.mark.skipif(library() is None, reason="the engine was not built")

LABELS = ("good", "bad", "odd")
SEVERAL = LabelsSpec(separator=";", none="-")
BERT = {
    "norm_first": False,
    "position": "learned",
    "embedding_norm": True,
    "scale_embedding": False,
    "feed_forward": {"kind": "dense", "activation": "gelu"},
}
TEXTS = [*TEXT, *(text[: 5 + number] for number, text in enumerate(TEXT)), "A dog"]
CONTINUATIONS = {"good": " a red ball", "bad": " grass.", "neither": " read the paper"}


@cache
def tokenizer() -> Tokenizer:
    return bpe.Spec(vocabulary=400).train(TEXT, ["mask"])


def model(kind: str, **given: object) -> torch.nn.Module:
    return random_model(kind, len(tokenizer()), max_length=60, **{**BERT, **given})


def classifier(bits: int = 32, several: bool = False, **given: object) -> Classifier:
    built = model("classifier", **{"classes": 3, "pooling": "attention", **given})
    written = SEVERAL if several else None
    return Classifier(built, tokenizer(), LABELS, 60, 1, written, 0.7, bits=bits)


def embedder(bits: int = 32, pooling: str = "mean", normalize: bool = True) -> Embedder:
    return Embedder(model("encoder"), tokenizer(), 60, pooling, normalize, bits)


def filler(bits: int = 32) -> MaskFiller:
    return MaskFiller(model("masked-lm", transform="gelu"), tokenizer(), 60, bits)


def zero_shot(bits: int = 32, normalize: str = "calibrated") -> ZeroShotClassifier:
    generator = TextGenerator(model("language-model"), tokenizer(), 60, bits=bits)
    return ZeroShotClassifier(generator, "{text} It was", CONTINUATIONS, normalize)


def scores_of_tokens(predictor: MaskFiller, texts: list[str]) -> list[list[float]]:
    return [list(score.token_log_probs) for score in predictor.score(texts)]


# (predictor, texts) → numbers of each text
PREDICTIONS: dict[str, tuple[Callable[[int], Any], Callable[[Any, list[str]], Any]]] = {
    "classifier": (classifier, lambda p, texts: p.log_probs(texts).tolist()),
    "labels": (classifier, lambda p, texts: [x.probabilities for x in p.classify(texts)]),
    "several labels": (
        lambda bits: classifier(bits, several=True),
        lambda p, texts: p.log_probs(texts).tolist(),
    ),
    **{
        f"classifier, {pooling}": (
            lambda bits, pooling=pooling: classifier(bits, pooling=pooling),
            lambda p, texts: p.log_probs(texts).tolist(),
        )
        for pooling in ("mean", "first", "max")
    },
    **{
        f"embedder, {pooling}": (
            lambda bits, pooling=pooling: embedder(bits, pooling),
            lambda p, texts: p.vectors(texts).tolist(),
        )
        for pooling in ("mean", "first", "max")
    },
    "embedder, not normalized": (
        lambda bits: embedder(bits, normalize=False),
        lambda p, texts: p.vectors(texts).tolist(),
    ),
    "filler": (filler, scores_of_tokens),
    "zero-shot": (zero_shot, lambda p, texts: p.scores(texts).tolist()),
    "zero-shot, mean": (
        lambda bits: zero_shot(bits, "mean"),
        lambda p, texts: [x.probabilities for x in p.classify(texts)],
    ),
}


@cache
def shared(name: str, bits: int) -> Any:
    return PREDICTIONS[name][0](bits)


def predicted(name: str, predictor: Any, texts: list[str]) -> list[Any]:
    return PREDICTIONS[name][1](predictor, texts)


def module_of(predictor: Any) -> torch.nn.Module:
    return predictor.generator.model if hasattr(predictor, "generator") else predictor.model


def engine_model_of(predictor: Any) -> Any:
    return getattr(predictor, "generator", predictor).engine_model


@needs_engine
@pytest.mark.parametrize("name", PREDICTIONS)
def test_engine_and_torch_agree(name: str) -> None:
    predictor = PREDICTIONS[name][0](32)
    assert engine_model_of(predictor).uses_engine
    actual = predicted(name, predictor, TEXTS)
    handle = module_of(predictor).register_forward_hook(lambda *_: None)  # hooks select torch
    assert not engine_model_of(predictor).uses_engine
    expected = predicted(name, predictor, TEXTS)
    for own, other in zip(actual, expected, strict=True):
        assert own == pytest.approx(other, abs=1e-4)
    handle.remove()
    assert predicted(name, predictor, TEXTS) == actual


@needs_engine
@given(st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=8))
@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("bits", [32, 8, 4])
@pytest.mark.parametrize("name", PREDICTIONS)
def test_bits_do_not_depend_on_the_batch(name: str, bits: int, chosen: list[int]) -> None:
    predictor = shared(name, bits)
    alone = {row: predicted(name, predictor, [TEXTS[row]])[0] for row in set(chosen)}
    together = predicted(name, predictor, [TEXTS[row] for row in chosen])
    assert together == [alone[row] for row in chosen]


@needs_engine
def test_fillings_equal_torch() -> None:
    predictor, text = filler(), "A ___ runs over the ___ near 12 trees."
    actual = predictor.fill(text, top=6)
    predictor.model.register_forward_hook(lambda *_: None)
    for own, other in zip(actual, predictor.fill(text, top=6), strict=True):
        assert [filling.text for filling in own] == [filling.text for filling in other]
        probabilities = [filling.probability for filling in other]
        assert [filling.probability for filling in own] == pytest.approx(probabilities, abs=1e-4)


@needs_engine
@pytest.mark.parametrize("name", ["classifier", "embedder, mean", "filler"])
def test_int8_changes_results_a_little(name: str) -> None:
    exact, rounded = (flat(predicted(name, shared(name, bits), TEXTS)) for bits in (32, 8))
    assert (exact != rounded).any()
    assert np.abs(exact - rounded).max() < 0.3


def flat(results: list[list[float]]) -> NDArray[Any]:
    return np.concatenate([np.array(row) for row in results])


@needs_engine
def test_changed_weights_count() -> None:
    predictor = classifier()
    before = predictor.log_probs(TEXTS)
    with torch.no_grad():
        predictor.model.output.bias[0] += 5
    after = predictor.log_probs(TEXTS)
    assert (after[:, 0] > before[:, 0]).all()


@pytest.mark.parametrize(
    "given",
    [
        {"position": "relative"},
        {"attention": {"kind": "window", "size": 4}, "position": "rotary"},
        {"feed_forward": "moe"},
    ],
    ids=str,
)
def test_unsupported_models_are_computed_with_torch(given: dict[str, object]) -> None:
    predictor = classifier(**given)
    assert not predictor.engine_model.uses_engine
    logits = predictor.model(*predictor.model_inputs([(predictor.encode("A dog"), "A dog", "")]))
    expected = (logits / 0.7).log_softmax(-1)
    torch.testing.assert_close(predictor.log_probs(["A dog"]), expected.detach())
    with pytest.raises(ConfigError, match="the compiled engine, and it does not support"):
        classifier(bits=8, **given)


def test_integer_weights_are_refused_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.engine.select.library", lambda: None)
    with pytest.raises(ConfigError, match="it was not built on this machine"):
        embedder(bits=4)


def test_bits_are_for_transformers() -> None:
    from regard.models.base import ModelSpec

    spec = ModelSpec.model_validate({"kind": "recurrent", "dim": 8})
    baseline = spec.for_capability("sequence-classification").build(len(tokenizer()))
    with pytest.raises(ConfigError, match="does not support stack RecurrentEncoder"):
        Classifier(baseline, tokenizer(), LABELS[:2], 40, bits=8)
    with pytest.raises(ConfigError, match="bits is 7"):
        embedder(bits=7)


def test_batches_are_sorted_by_length() -> None:
    rows = [[0] * length for length in (5, 1, 4, 2, 3)]
    assert list(batches_by_length(rows, 2)) == [[1, 3], [4, 2], [0]]
    assert list(batches_by_length([])) == []


@pytest.mark.parametrize("rows", [3, 1000])
def test_nearest_pairs_equal_the_table(rows: int) -> None:
    vectors = np.random.default_rng(0).standard_normal((25, 8)).astype(np.float32)
    table = cosines(vectors, vectors)
    every = sorted(
        ((float(table[i, j]), i, j) for i in range(25) for j in range(i + 1, 25)), reverse=True
    )
    pairs = nearest(vectors, 10, rows)
    assert [pair[1:] for pair in pairs] == [pair[1:] for pair in every[:10]]
    assert len(nearest(vectors, 10**6, rows)) == len(every)
    assert nearest(vectors[:1], 5) == []
