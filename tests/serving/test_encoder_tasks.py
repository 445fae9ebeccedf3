"""Tasks of encoders and zero-shot classification: their results are those of the predictors."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from regard.errors import DataError
from regard.loading import load
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.predictors.zero_shot import ZeroShotClassifier
from regard.serving.errors import BadRequest
from regard.serving.tasks import classify, embed, fill, zero_shot
from regard.serving.tasks.base import Canceled, TaskContext

from .conftest import EN, FR

CONTEXT = TaskContext()


@pytest.fixture(scope="module")
def filler(runs: Mapping[str, Path]) -> MaskFiller:
    predictor = load(runs["masked"])
    assert isinstance(predictor, MaskFiller)
    return predictor


@pytest.fixture(scope="module")
def classifier(runs: Mapping[str, Path]) -> Classifier:
    predictor = load(runs["classifier"])
    assert isinstance(predictor, Classifier)
    return predictor


@pytest.fixture(scope="module")
def embedder(runs: Mapping[str, Path]) -> Embedder:
    predictor = load(runs["encoder"])
    assert isinstance(predictor, Embedder)
    return predictor


@pytest.fixture(scope="module")
def generator(runs: Mapping[str, Path]) -> TextGenerator:
    predictor = load(runs["lm"])
    assert isinstance(predictor, TextGenerator)
    return predictor


@pytest.mark.parametrize("blank", ["___", "[MASK]", "[mask]", "<mask>"])
def test_fill(filler: MaskFiller, blank: str) -> None:
    text = f"The animal {blank} cross the {blank}."
    result = fill.run(filler, fill.Arguments(texts=[text], top=3), CONTEXT)
    expected = filler.fill(text, 3)
    ((first, second),) = result.fills
    assert [own.probability for own in first] == [own.probability for own in expected[0]]
    assert [own.token for own in second] == [own.token for own in expected[1]]
    assert all(own.sequence.startswith("The animal") for own in (*first, *second))
    assert all(own.text.removeprefix("…") in own.sequence for own in first)
    assert result.input_tokens == len(filler.encode(text))


def test_a_filling_that_continues_a_word_has_no_space() -> None:
    assert fill._filled("the walk ", "…ing", " dog") == "the walking dog"
    assert fill._filled("the ", "…", " dog") == "the … dog"


def test_fill_with_spans_and_their_sentinels(runs: Mapping[str, Path]) -> None:
    filler = load(runs["spans"])
    assert isinstance(filler, SpanFiller)
    (own,) = filler.tokenizer.pieces(filler.sentinels[:1])
    results = [
        fill.run(filler, fill.Arguments(texts=[f"The {blank} was tired."], top=2), CONTEXT)
        for blank in ("___", own)
    ]
    texts = [[candidate.text for candidate in result.fills[0][0]] for result in results]
    assert texts[0] == texts[1]


def test_classify(classifier: Classifier) -> None:
    result = classify.run(classifier, classify.Arguments(texts=[EN, FR]), CONTEXT)
    for labels, expected in zip(result.predictions, classifier.classify([EN, FR]), strict=True):
        assert labels[0].label == expected.label
        assert {own.label: own.probability for own in labels} == expected.probabilities
    assert not result.multi_label
    assert result.input_tokens == sum(len(classifier.encode(text)) for text in (EN, FR))
    with pytest.raises(DataError, match="text 2: there is no text"):
        classify.run(classifier, classify.Arguments(texts=[EN, ""]), CONTEXT)
    with pytest.raises(DataError, match="one text at a time"):
        classify.run(classifier, classify.Arguments(texts=[(EN, FR)]), CONTEXT)


def test_embed_texts_and_ids(embedder: Embedder) -> None:
    texts = [EN, FR, "a cat"]
    expected = embedder.vectors(texts).tolist()
    result = embed.run(embedder, embed.Arguments(texts=texts), CONTEXT)
    ids = [embedder.encode(text) for text in texts]
    assert result.vectors == expected
    assert result == embed.run(embedder, embed.Arguments(ids=ids), CONTEXT)
    assert result.input_tokens == sum(map(len, ids))
    raw = embed.run(embedder, embed.Arguments(texts=texts, normalize=False), CONTEXT)
    assert raw.vectors != expected


def test_embed_refuses_what_it_cannot_embed(embedder: Embedder) -> None:
    with pytest.raises(ValidationError, match="texts or ids"):
        embed.Arguments()
    with pytest.raises(DataError, match="text 2 is empty"):
        embed.run(embedder, embed.Arguments(texts=[EN, " "]), CONTEXT)
    with pytest.raises(DataError, match="not in this model's vocabulary"):
        embed.run(embedder, embed.Arguments(ids=[[1, 10**6]]), CONTEXT)
    with pytest.raises(DataError, match="this model takes"):
        embed.run(embedder, embed.Arguments(ids=[[1] * 1000]), CONTEXT)


def test_zero_shot(generator: TextGenerator) -> None:
    arguments = zero_shot.Arguments(texts=[EN], labels=["a cat", "a dog"], template="About {}.")
    (labels,) = zero_shot.run(generator, arguments, CONTEXT).predictions
    continuations = {"a cat": " a cat.", "a dog": " a dog."}
    expected = ZeroShotClassifier(generator, "{text} About", continuations).classify([EN])[0]
    assert {own.label: own.probability for own in labels} == expected.probabilities
    several = arguments.model_copy(update={"multi_label": True})
    (by_itself,) = zero_shot.run(generator, several, CONTEXT).predictions
    assert [own.label for own in by_itself] == [own.label for own in labels]
    assert sum(own.probability for own in by_itself) != pytest.approx(1)


@pytest.mark.parametrize(
    ("template", "prompt", "continuation"),
    [
        ("This example is {}.", "{text} This example is", " cats."),
        ("{text}\nTopic: {}", "{text}\nTopic:", " cats"),
        ("{}", "{text}", " cats"),
        ("({})", "{text} (", "cats)"),
    ],
)
def test_templates_of_labels(template: str, prompt: str, continuation: str) -> None:
    expected = {"cats": continuation}
    assert zero_shot.prompt_and_continuations(template, ["cats"]) == (prompt, expected)


@pytest.mark.parametrize(
    ("template", "labels"), [("x", ["a"]), ("{} {text}", ["a"]), ("{}", ["a", "a"])]
)
def test_wrong_templates_and_labels_are_refused(template: str, labels: list[str]) -> None:
    with pytest.raises(BadRequest):
        zero_shot.prompt_and_continuations(template, labels)


def test_a_canceled_request_ends(filler: MaskFiller, embedder: Embedder) -> None:
    context = TaskContext()
    context.cancel()
    with pytest.raises(Canceled):
        fill.run(filler, fill.Arguments(texts=["a ___"]), context)
    with pytest.raises(Canceled):
        embed.run(embedder, embed.Arguments(texts=["a"]), context)
