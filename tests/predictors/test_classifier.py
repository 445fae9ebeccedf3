"""Classifier: probabilities, pairs, refused texts and evaluation on labeled files."""

from pathlib import Path

import pytest
import torch

from regard.data.records import Location, Record
from regard.data.sources.labels import LabelsSpec
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier, Prediction
from regard.predictors.classifier_evaluation import evaluate_classifier, labeled_lines

LABELS = ("good", "bad", "odd")
MULTI_LABEL = LabelsSpec(separator=";", none="-")


def build_classifier(
    num_texts: int = 1, label_format: LabelsSpec | None = None, temperature: float = 1
) -> Classifier:
    tokenizer = TokenizerSpec.model_validate("byte").train(())
    spec = ModelSpec.model_validate(
        {"kind": "classifier", "size": "tiny", "classes": 3, "max_length": 30}
    )
    torch.manual_seed(0)
    return Classifier(
        spec.build(len(tokenizer)), tokenizer, LABELS, 30, num_texts, label_format, temperature
    )


def test_single_label_probabilities_sum_to_one_in_any_batch() -> None:
    texts = ["fine", "a longer text", "no"]
    prediction = build_classifier().classify(texts)
    for each in prediction:
        assert sum(each.probabilities.values()) == pytest.approx(1)
        assert (
            each.probability == each.probabilities[each.label] == max(each.probabilities.values())
        )
    alone = [build_classifier().classify([text])[0] for text in texts]
    for one, among in zip(alone, prediction, strict=True):
        assert one.label == among.label
        assert one.probability == pytest.approx(among.probability, abs=1e-5)
    assert build_classifier().classify([]) == []


def test_multi_label_probabilities_are_independent() -> None:
    (prediction,) = build_classifier(label_format=MULTI_LABEL).classify(["fine"])
    assert sum(prediction.probabilities.values()) != pytest.approx(1)
    probabilities = sorted(prediction.probabilities.values())
    assert prediction.at_least(0) == tuple(
        sorted(prediction.probabilities, key=prediction.probabilities.__getitem__, reverse=True)
    )
    assert prediction.at_least(probabilities[1]) == prediction.at_least(0)[:2]
    assert prediction.at_least(1) == ()
    assert Prediction("a", 0.5).at_least() == ()


def test_temperature_changes_confidence_not_labels() -> None:
    texts = ["fine", "bad", "text"]
    plain, warm = (build_classifier(temperature=each).classify(texts) for each in (1, 4))
    assert [each.label for each in plain] == [each.label for each in warm]
    assert all(b.probability < a.probability for a, b in zip(plain, warm, strict=True))


def test_pair_is_encoded_as_one_sequence() -> None:
    model = build_classifier(num_texts=2)
    tokenizer = model.tokenizer
    expected = [tokenizer.start, *tokenizer.encode("ab"), tokenizer.end]
    assert model.encode(("ab", "c")) == [*expected, *tokenizer.encode("c"), tokenizer.end]
    assert model.parse_line("ab\tc") == ("ab", "c")
    one, other = model.classify([("ab", "c"), ("c", "ab")])
    assert one.probabilities != other.probabilities


@pytest.mark.parametrize(
    ("num_texts", "text", "message"),
    [
        (1, "x" * 29, "text 2: there are 31 tokens and this model takes 30: shorten it"),
        (1, "", "text 2: there is no text to classify"),
        (1, ("a", "b"), "text 2: this model classifies one text at a time, not 2 texts"),
        (2, "a", "text 2: this model classifies pairs of texts, not 1 texts"),
        (2, ("a", ""), "text 2: there is no text to classify"),
        (2, ("a" * 20, "b" * 20), "text 2: there are 43 tokens"),
    ],
)
def test_invalid_texts_are_refused(num_texts: int, text: object, message: str) -> None:
    fine = "fine" if num_texts == 1 else ("fine", "too")
    with pytest.raises(DataError, match=message):
        build_classifier(num_texts).classify([fine, text])


@pytest.mark.parametrize("line", ["one", "one\ttwo\tthree"])
def test_line_without_a_pair_is_refused(line: str) -> None:
    with pytest.raises(DataError, match=r"line 3: .* one tab between them"):
        build_classifier(num_texts=2).parse_line(line, "line 3")


def test_line_with_a_label_is_refused() -> None:
    with pytest.raises(DataError, match=r"line 3: .* there is a tab in this"):
        build_classifier(num_texts=1).parse_line("a fine film\t1", "line 3")


def test_evaluation_on_its_own_predictions_is_perfect(tmp_path: Path) -> None:
    model = build_classifier()
    texts = [f"text {number}" for number in range(20)]
    predictions = model.classify(texts)
    path = tmp_path / "data.tsv"
    lines = [f"{text}\t{each.label}\n" for text, each in zip(texts, predictions, strict=True)]
    path.write_text("".join(lines))
    actual = evaluate_classifier(model, labeled_lines(model, path))
    assert (actual.texts, actual.accuracy) == (20, 1.0)
    confidence = sum(each.probability for each in predictions) / 20
    assert actual.calibration_error == pytest.approx(1 - confidence, abs=1e-5)


def test_unknown_labels_and_invalid_lines_are_refused(tmp_path: Path) -> None:
    model = build_classifier(label_format=MULTI_LABEL)
    path = tmp_path / "data.tsv"
    path.write_text("fine\tgood;odd\nbad\t-\nugly\tbad;ugly\n")
    with pytest.raises(DataError, match=r"data.tsv, line 3: .*not trained with the label 'ugly'"):
        evaluate_classifier(model, labeled_lines(model, path))
    path.write_text("fine\tgood\nbad\n")
    with pytest.raises(
        DataError, match=r"line 2: wrong columns \(1 instead of 2: 0 'bad' \(read as t"
    ):
        evaluate_classifier(model, labeled_lines(model, path))
    with pytest.raises(DataError, match="no labeled text"):
        evaluate_classifier(model, iter(()))
    record = Record(Location("here", 1), ("x" * 40,), labels=("good",))
    with pytest.raises(DataError, match="here, line 1: there are 42 tokens"):
        evaluate_classifier(model, [record])
