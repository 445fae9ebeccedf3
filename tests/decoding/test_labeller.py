"""A labeller: honest probabilities, pairs in one row, nothing cut, nothing guessed."""

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
SEVERAL = LabelsSpec(separator=";", none="-")


def labeller(
    sides: int = 1, written: LabelsSpec | None = None, temperature: float = 1
) -> Classifier:
    tokenizer = TokenizerSpec.model_validate("byte").train(())
    spec = ModelSpec.model_validate(
        {"kind": "classifier", "size": "tiny", "classes": 3, "max_length": 30}
    )
    torch.manual_seed(0)
    return Classifier(
        spec.build(len(tokenizer)), tokenizer, LABELS, 30, sides, written, temperature
    )


def test_one_label_is_a_share_of_all() -> None:
    texts = ["fine", "a longer text", "no"]
    judged = labeller().classify(texts)
    for each in judged:
        assert sum(each.probabilities.values()) == pytest.approx(1)
        assert (
            each.probability == each.probabilities[each.label] == max(each.probabilities.values())
        )
    alone = [labeller().classify([text])[0] for text in texts]
    for one, among in zip(alone, judged, strict=True):
        assert one.label == among.label
        assert one.probability == pytest.approx(among.probability, abs=1e-5)
    assert labeller().classify([]) == []


def test_of_several_labels_each_is_a_decision() -> None:
    (judged,) = labeller(written=SEVERAL).classify(["fine"])
    assert sum(judged.probabilities.values()) != pytest.approx(1)
    shares = sorted(judged.probabilities.values())
    assert judged.at_least(0) == tuple(
        sorted(judged.probabilities, key=judged.probabilities.__getitem__, reverse=True)
    )
    assert judged.at_least(shares[1]) == judged.at_least(0)[:2]
    assert judged.at_least(1) == ()
    assert Prediction("a", 0.5).at_least() == ()


def test_a_temperature_changes_how_sure_it_is_and_no_decision() -> None:
    texts = ["fine", "bad", "text"]
    plain, warm = (labeller(temperature=each).classify(texts) for each in (1, 4))
    assert [each.label for each in plain] == [each.label for each in warm]
    assert all(b.probability < a.probability for a, b in zip(plain, warm, strict=True))


def test_a_pair_is_one_row() -> None:
    model = labeller(sides=2)
    tokenizer = model.tokenizer
    expected = [tokenizer.start, *tokenizer.encode("ab"), tokenizer.end]
    assert model.encode(("ab", "c")) == [*expected, *tokenizer.encode("c"), tokenizer.end]
    assert model.parse_line("ab\tc") == ("ab", "c")
    one, other = model.classify([("ab", "c"), ("c", "ab")])
    assert one.probabilities != other.probabilities


@pytest.mark.parametrize(
    ("sides", "text", "complaint"),
    [
        (1, "x" * 29, "text 2: there are 31 tokens and this model takes 30: shorten it"),
        (1, "", "text 2: there is no text to classify"),
        (1, ("a", "b"), "text 2: this model classifies one text at a time, not 2 texts"),
        (2, "a", "text 2: this model classifies pairs of texts, not 1 texts"),
        (2, ("a", ""), "text 2: there is no text to classify"),
        (2, ("a" * 20, "b" * 20), "text 2: there are 43 tokens"),
    ],
)
def test_what_cannot_be_judged_is_refused(sides: int, text: object, complaint: str) -> None:
    fine = "fine" if sides == 1 else ("fine", "too")
    with pytest.raises(DataError, match=complaint):
        labeller(sides).classify([fine, text])


@pytest.mark.parametrize("line", ["one", "one\ttwo\tthree"])
def test_a_line_that_is_no_pair_is_refused(line: str) -> None:
    with pytest.raises(DataError, match=r"line 3: .* one tab between them"):
        labeller(sides=2).parse_line(line, "line 3")


def test_a_line_with_a_label_behind_the_text_is_refused() -> None:
    with pytest.raises(DataError, match=r"line 3: .* there is a tab in this"):
        labeller(sides=1).parse_line("a fine film\t1", "line 3")


def test_it_is_worth_what_its_labels_are(tmp_path: Path) -> None:
    model = labeller()
    texts = [f"text {number}" for number in range(20)]
    said = model.classify(texts)
    path = tmp_path / "data.tsv"
    lines = [f"{text}\t{each.label}\n" for text, each in zip(texts, said, strict=True)]
    path.write_text("".join(lines))
    found = evaluate_classifier(model, labeled_lines(model, path))
    assert (found.texts, found.accuracy) == (20, 1.0)
    sure = sum(each.probability for each in said) / 20
    assert found.calibration_error == pytest.approx(1 - sure, abs=1e-5)


def test_what_it_was_never_taught_is_named(tmp_path: Path) -> None:
    model = labeller(written=SEVERAL)
    path = tmp_path / "data.tsv"
    path.write_text("fine\tgood;odd\nbad\t-\nugly\tbad;ugly\n")
    with pytest.raises(DataError, match=r"data.tsv, line 3: .*not trained with the label 'ugly'"):
        evaluate_classifier(model, labeled_lines(model, path))
    path.write_text("fine\tgood\nbad\n")
    with pytest.raises(DataError, match=r"line 2: wrong columns \(1 instead of 2\); fix"):
        evaluate_classifier(model, labeled_lines(model, path))
    with pytest.raises(DataError, match="no labeled text"):
        evaluate_classifier(model, iter(()))
    record = Record(Location("here", 1), ("x" * 40,), labels=("good",))
    with pytest.raises(DataError, match="here, line 1: there are 42 tokens"):
        evaluate_classifier(model, [record])
