"""Run folders of format 1 load, and compute what the version that wrote them computed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.sources.trees import ParsedText, Tree
from regard.decoding.config import DecodingConfig

FIXTURES = Path(__file__).parent / "fixtures" / "format-1"
RUNS = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
TOLERANCE = {"rel": 1e-5, "abs": 1e-5}  # kernels differ between processors


@pytest.fixture(params=RUNS, scope="module")
def run(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    """Return what the folder loads as, and the outputs of the version that wrote it."""
    folder = FIXTURES / request.param
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return regard.load(folder), expected


def test_logits_are_unchanged(run: tuple[Any, dict[str, Any]]) -> None:
    predictor, expected = run
    if expected["logits"] is None:
        pytest.skip("its inputs include trees; see the probabilities")
    logits = expected["logits"]
    with torch.inference_mode():
        computed = predictor.model(*map(torch.tensor, logits["arguments"])).double()
    assert list(computed.shape) == logits["shape"]
    assert computed.flatten()[:8].tolist() == pytest.approx(logits["first"], **TOLERANCE)
    assert float(computed.sum()) == pytest.approx(logits["sum"], rel=1e-5, abs=1e-3)
    assert float((computed**2).sum()) == pytest.approx(logits["squares"], rel=1e-5)


def test_outputs_are_unchanged(run: tuple[Any, dict[str, Any]]) -> None:
    predictor, expected = run
    checks = {
        "translate": _check_translations,
        "summarize": _check_summaries,
        "generate": _check_continuations,
        "classify": _check_probabilities,
        "fill": _check_fillings,
        "embed": _check_vectors,
    }
    methods = [method for method in checks if method in expected]
    assert len(methods) == 1
    checks[methods[0]](predictor, expected[methods[0]])


def _check_translations(translator: Any, expected: dict[str, Any]) -> None:
    lines, to = expected["lines"], expected["to"]
    assert translator.translate(lines, to=to) == expected["greedy"]
    decoding = DecodingConfig(beam=expected["beam"], n_best=expected["n_best"])
    _check_candidates(translator.candidates(lines, to=to, decoding=decoding), expected)
    scores = translator.score(lines, expected["references"], to=to)
    assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_summaries(summarizer: Any, expected: dict[str, Any]) -> None:
    texts = expected["texts"]
    assert summarizer.summarize(texts) == expected["greedy"]
    decoding = DecodingConfig(beam=expected["beam"], n_best=expected["n_best"])
    _check_candidates(summarizer.candidates(texts, decoding=decoding), expected)
    scores = summarizer.score(texts, expected["summaries"])
    assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_candidates(candidates: list[list[Any]], expected: dict[str, Any]) -> None:
    for ranked, reference in zip(candidates, expected["candidates"], strict=True):
        assert [text.text for text in ranked] == [text for text, _ in reference]
        scores = [score for _, score in reference]
        assert [text.score for text in ranked] == pytest.approx(scores, **TOLERANCE)


def _check_continuations(generator: Any, expected: dict[str, Any]) -> None:
    prompts, tokens = expected["prompts"], expected["tokens"]
    assert [generator.generate(prompt, tokens) for prompt in prompts] == expected["greedy"]
    decoding = DecodingConfig(beam=expected["beam"], n_best=expected["n_best"])
    assert generator.candidates(prompts, tokens, decoding) == expected["candidates"]
    scores = generator.score(expected["texts"])
    assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_probabilities(classifier: Any, expected: dict[str, Any]) -> None:
    texts = expected.get("texts") or [
        ParsedText(tree["text"], Tree(tuple(map(tuple, tree["spans"])), tuple(tree["heads"])))
        for tree in expected["trees"]
    ]
    predictions = classifier.classify(texts)
    for prediction, probabilities in zip(predictions, expected["probabilities"], strict=True):
        assert dict(prediction.probabilities) == pytest.approx(probabilities, **TOLERANCE)


def _check_fillings(filler: Any, expected: dict[str, Any]) -> None:
    blanks = filler.fill(expected["text"], top=3)
    for fillings, reference in zip(blanks, expected["fillings"], strict=True):
        assert [filling.text for filling in fillings] == [text for text, _ in reference]
        probabilities = [p for _, p in reference]
        assert [f.probability for f in fillings] == pytest.approx(probabilities, **TOLERANCE)
    if "scores" in expected:
        scores = filler.score(expected["texts"])
        assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_vectors(embedder: Any, expected: dict[str, Any]) -> None:
    vectors = embedder.embed(expected["texts"])
    torch.testing.assert_close(vectors, torch.tensor(expected["vectors"]), rtol=1e-5, atol=1e-5)
